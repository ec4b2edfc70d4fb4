// A client on iceberg-go that tests drive: a command in JSON on each line of standard input, its answer on each line of
// standard output, as {"answer": …} or {"error": "…"}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/io/gocloud/s3"
	"github.com/apache/iceberg-go/table"
)

type command struct {
	Do         string             `json:"do"`
	Namespace  []string           `json:"namespace"`
	Table      []string           `json:"table"`
	To         []string           `json:"to"`
	Properties iceberg.Properties `json:"properties"`
	Removals   []string           `json:"removals"`
	Schema     json.RawMessage    `json:"schema"`
	Partition  string             `json:"partition"`
	Rows       json.RawMessage    `json:"rows"`
	Filter     json.RawMessage    `json:"filter"`
	Planning   string             `json:"planning"`
	Ref        string             `json:"ref"`
	Name       string             `json:"name"`
	Location   string             `json:"location"`
	Version    int                `json:"version"`
	Snapshot   int64              `json:"snapshot"`
	Tables     [][]string         `json:"tables"`
}

func main() {
	ctx := context.Background()
	var properties iceberg.Properties
	if err := json.Unmarshal([]byte(os.Args[1]), &properties); err != nil {
		panic(err)
	}
	lake, err := rest.NewCatalog(ctx, "floecat", properties["uri"], options(properties)...)
	out := json.NewEncoder(os.Stdout)
	if err != nil {
		_ = out.Encode(map[string]any{"error": err.Error()})
		return
	}
	_ = out.Encode(map[string]any{"answer": "connected"})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var asked command
		answer, err := any(nil), json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			answer, err = run(ctx, lake, asked)
		}
		if err != nil {
			_ = out.Encode(map[string]any{"error": err.Error()})
		} else {
			_ = out.Encode(map[string]any{"answer": answer})
		}
	}
}

func options(properties iceberg.Properties) []rest.Option {
	chosen := []rest.Option{
		rest.WithWarehouseLocation(properties["warehouse"]),
		rest.WithAdditionalProps(properties),
	}
	if token := properties["token"]; token != "" {
		chosen = append(chosen, rest.WithOAuthToken(token))
	}
	if credential := properties["credential"]; credential != "" {
		endpoint, err := url.Parse(properties["oauth2-server-uri"])
		if err != nil {
			panic(err)
		}
		chosen = append(
			chosen,
			rest.WithCredential(credential),
			rest.WithAuthURI(endpoint),
			rest.WithScope(properties["scope"]),
		)
	}
	return chosen
}

func run(ctx context.Context, lake *rest.Catalog, asked command) (any, error) {
	switch asked.Do {
	case "create namespace":
		return nil, lake.CreateNamespace(ctx, asked.Namespace, asked.Properties)
	case "namespaces":
		return lake.ListNamespaces(ctx, asked.Namespace)
	case "namespace exists":
		return lake.CheckNamespaceExists(ctx, asked.Namespace)
	case "namespace properties":
		return lake.LoadNamespaceProperties(ctx, asked.Namespace)
	case "update namespace":
		_, err := lake.UpdateNamespaceProperties(ctx, asked.Namespace, asked.Removals, asked.Properties)
		return nil, err
	case "drop namespace":
		return nil, lake.DropNamespace(ctx, asked.Namespace)
	case "create table":
		return nil, createTable(ctx, lake, asked)
	case "tables":
		found := []table.Identifier{}
		for each, err := range lake.ListTables(ctx, asked.Namespace) {
			if err != nil {
				return nil, err
			}
			found = append(found, each)
		}
		return found, nil
	case "table exists":
		return lake.CheckTableExists(ctx, asked.Table)
	case "rename table":
		_, err := lake.RenameTable(ctx, asked.Table, asked.To)
		return nil, err
	case "register table":
		_, err := lake.RegisterTable(ctx, asked.Table, asked.Location)
		return nil, err
	case "drop table":
		return nil, lake.DropTable(ctx, asked.Table)
	case "purge table":
		return nil, lake.PurgeTable(ctx, asked.Table)
	case "append to several":
		return nil, appendToSeveral(ctx, lake, asked)
	}
	loaded, err := lake.LoadTable(ctx, asked.Table)
	if err != nil {
		return nil, err
	}
	return runOn(ctx, lake, loaded, asked)
}

func runOn(ctx context.Context, lake *rest.Catalog, loaded *table.Table, asked command) (any, error) {
	switch asked.Do {
	case "load table":
		return describe(loaded), nil
	case "read":
		return read(ctx, loaded, asked)
	case "append":
		return change(ctx, loaded, asked.Ref, func(txn *table.Transaction) error {
			return appendRows(ctx, loaded, txn, asked.Rows)
		})
	case "overwrite":
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			rows, err := reader(loaded, asked.Rows)
			if err != nil {
				return err
			}
			defer rows.Release()
			filter, err := iceberg.ParseExpr(asked.Filter, loaded.Schema())
			if err != nil {
				return err
			}
			return txn.Overwrite(ctx, rows, nil, table.WithOverwriteFilter(filter))
		})
	case "delete":
		filter, err := iceberg.ParseExpr(asked.Filter, loaded.Schema())
		if err != nil {
			return nil, err
		}
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			return txn.Delete(ctx, filter, nil)
		})
	case "set properties":
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			return txn.SetProperties(asked.Properties)
		})
	case "upgrade":
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			return txn.UpgradeFormatVersion(asked.Version)
		})
	case "add column":
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			update := txn.UpdateSchema(true, false)
			return update.AddColumn([]string{asked.Name}, iceberg.PrimitiveTypes.String, "", false, nil).Commit()
		})
	case "rename column":
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			return txn.UpdateSchema(true, false).RenameColumn([]string{asked.Name}, asked.To[0]).Commit()
		})
	case "drop column":
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			return txn.UpdateSchema(true, false).DeleteColumn([]string{asked.Name}).Commit()
		})
	case "partition by":
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			update := txn.UpdateSpec(true)
			update.AddField(asked.Name, iceberg.BucketTransform{NumBuckets: 4}, asked.Name+"_bucket")
			return update.Commit()
		})
	case "tag", "branch":
		return nil, setRef(ctx, lake, loaded, asked)
	case "roll back":
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			return txn.RollbackToSnapshot(asked.Snapshot)
		})
	case "expire":
		return change(ctx, loaded, "", func(txn *table.Transaction) error {
			return txn.ExpireSnapshots(table.WithOlderThan(0), table.WithRetainLast(1))
		})
	case "orphans":
		plan, err := loaded.PlanOrphanFiles(ctx, table.WithFilesOlderThan(time.Nanosecond))
		if err != nil {
			return nil, err
		}
		return plan.Files(), nil
	}
	return nil, fmt.Errorf("unknown command %q", asked.Do)
}

func createTable(ctx context.Context, lake *rest.Catalog, asked command) error {
	var schema iceberg.Schema
	if err := json.Unmarshal(asked.Schema, &schema); err != nil {
		return err
	}
	chosen := []catalog.CreateTableOpt{catalog.WithProperties(asked.Properties)}
	if asked.Partition != "" {
		spec, err := iceberg.NewPartitionSpecOpts(
			iceberg.AddPartitionFieldByName(asked.Partition, asked.Partition, iceberg.IdentityTransform{}, &schema, nil),
		)
		if err != nil {
			return err
		}
		chosen = append(chosen, catalog.WithPartitionSpec(&spec))
	}
	_, err := lake.CreateTable(ctx, asked.Table, &schema, chosen...)
	return err
}

func describe(loaded *table.Table) map[string]any {
	snapshots := []int64{}
	for _, each := range loaded.Metadata().Snapshots() {
		snapshots = append(snapshots, each.SnapshotID)
	}
	return map[string]any{
		"format-version":    loaded.Metadata().Version(),
		"location":          loaded.Location(),
		"metadata-location": loaded.MetadataLocation(),
		"properties":        loaded.Properties(),
		"snapshots":         snapshots,
	}
}

func reader(loaded *table.Table, rows json.RawMessage) (array.RecordReader, error) {
	schema, err := table.SchemaToArrowSchema(loaded.Schema(), nil, false, false)
	if err != nil {
		return nil, err
	}
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(string(rows)))
	if err != nil {
		return nil, err
	}
	return array.NewRecordReader(schema, []arrow.RecordBatch{batch})
}

func appendRows(ctx context.Context, loaded *table.Table, txn *table.Transaction, rows json.RawMessage) error {
	opened, err := reader(loaded, rows)
	if err != nil {
		return err
	}
	defer opened.Release()
	return txn.Append(ctx, opened, nil)
}

func change(ctx context.Context, loaded *table.Table, branch string, apply func(*table.Transaction) error) (any, error) {
	txn := loaded.NewTransaction()
	if branch != "" {
		txn = loaded.NewTransactionOnBranch(branch)
	}
	if err := apply(txn); err != nil {
		return nil, err
	}
	changed, err := txn.Commit(ctx)
	if err != nil {
		return nil, err
	}
	return describe(changed), nil
}

func appendToSeveral(ctx context.Context, lake *rest.Catalog, asked command) error {
	commits := []table.TableCommit{}
	for _, name := range asked.Tables {
		loaded, err := lake.LoadTable(ctx, name)
		if err != nil {
			return err
		}
		txn := loaded.NewTransaction()
		if err := appendRows(ctx, loaded, txn, asked.Rows); err != nil {
			return err
		}
		commit, err := txn.TableCommit()
		if err != nil {
			return err
		}
		commits = append(commits, commit)
	}
	return lake.CommitTransaction(ctx, commits)
}

func setRef(ctx context.Context, lake *rest.Catalog, loaded *table.Table, asked command) error {
	kind := table.TagRef
	if asked.Do == "branch" {
		kind = table.BranchRef
	}
	snapshot := loaded.CurrentSnapshot().SnapshotID
	_, _, err := lake.CommitTable(ctx, loaded.Identifier(),
		[]table.Requirement{
			table.AssertTableUUID(loaded.Metadata().TableUUID()),
			table.AssertRefSnapshotID(asked.Name, nil),
		},
		[]table.Update{table.NewSetSnapshotRefUpdate(asked.Name, snapshot, kind, 0, 0, 0)})
	return err
}

func read(ctx context.Context, loaded *table.Table, asked command) (any, error) {
	chosen := []table.ScanOption{}
	if len(asked.Filter) > 0 {
		filter, err := iceberg.ParseExpr(asked.Filter, loaded.Schema())
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, table.WithRowFilter(filter))
	}
	if asked.Planning != "" {
		chosen = append(chosen, table.WithScanPlanningMode(table.ScanPlanningMode(asked.Planning)))
	}
	if asked.Snapshot != 0 {
		chosen = append(chosen, table.WithSnapshotID(asked.Snapshot))
	}
	scan := loaded.Scan(chosen...)
	if asked.Ref != "" {
		var err error
		if scan, err = scan.UseRef(asked.Ref); err != nil {
			return nil, err
		}
	}
	_, batches, err := scan.ToArrowRecords(ctx)
	if err != nil {
		return nil, err
	}
	rows := []json.RawMessage{}
	for batch, err := range batches {
		if err != nil {
			return nil, err
		}
		rendered, err := batch.MarshalJSON()
		batch.Release()
		if err != nil {
			return nil, err
		}
		var part []json.RawMessage
		if err := json.Unmarshal(rendered, &part); err != nil {
			return nil, err
		}
		rows = append(rows, part...)
	}
	return rows, nil
}
