// A client on iceberg-rust that tests drive: a command in JSON on each line of standard input, its answer on each line of
// standard output, as {"answer": …} or {"error": "…"}.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::{ArrayWriter, ReaderBuilder};
use futures::TryStreamExt;
use iceberg::arrow::{RecordBatchPartitionSplitter, schema_to_arrow_schema};
use iceberg::expr::{Predicate, Reference};
use iceberg::io::StorageFactory;
use iceberg::spec::{
    DataFile, DataFileFormat, Datum, FormatVersion, PrimitiveType, Schema, Transform, Type, UnboundPartitionSpec,
};
use iceberg::table::Table;
use iceberg::transaction::{AddColumn, ApplyTransactionAction, Transaction};
use iceberg::writer::base_writer::data_file_writer::DataFileWriterBuilder;
use iceberg::writer::file_writer::ParquetWriterBuilder;
use iceberg::writer::file_writer::location_generator::{DefaultFileNameGenerator, DefaultLocationGenerator};
use iceberg::writer::file_writer::rolling_writer::RollingFileWriterBuilder;
use iceberg::writer::partitioning::PartitioningWriter;
use iceberg::writer::partitioning::fanout_writer::FanoutWriter;
use iceberg::writer::{IcebergWriter, IcebergWriterBuilder};
use iceberg::{Catalog, CatalogBuilder, NamespaceIdent, TableCreation, TableIdent};
use iceberg_catalog_rest::{RestCatalog, RestCatalogBuilder};
use iceberg_storage_opendal::OpenDalStorageFactory;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

/// Asks for keys of the catalog, which makes some for tables on S3 alone.
const DELEGATION: &str = "header.x-iceberg-access-delegation";

type Answer<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() {
    let properties: HashMap<String, String> = serde_json::from_str(&std::env::args().nth(1).unwrap()).unwrap();
    let lake = match connect(properties).await {
        Ok(lake) => {
            say(Ok(json!("connected")));
            lake
        }
        Err(error) => return say(Err(error)),
    };
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
        say(run(&lake, &asked).await);
    }
}

fn say(answer: Answer<Value>) {
    let said = match answer {
        Ok(answer) => json!({"answer": answer}),
        Err(error) => json!({"error": error.to_string()}),
    };
    println!("{said}");
    std::io::stdout().flush().unwrap();
}

async fn connect(properties: HashMap<String, String>) -> Answer<RestCatalog> {
    let storage: Arc<dyn StorageFactory> = if properties.contains_key("s3.access-key-id") || properties.contains_key(DELEGATION) {
        Arc::new(OpenDalStorageFactory::S3 { customized_credential_load: None })
    } else {
        Arc::new(OpenDalStorageFactory::Fs)
    };
    Ok(RestCatalogBuilder::default().with_storage_factory(storage).load("floecat", properties).await?)
}

async fn run(lake: &RestCatalog, asked: &Value) -> Answer<Value> {
    let named = |key: &str| NamespaceIdent::from_vec(strings(&asked[key]));
    let table = |key: &str| TableIdent::from_strs(strings(&asked[key]));
    match asked["do"].as_str().unwrap_or_default() {
        "create namespace" => {
            lake.create_namespace(&named("namespace")?, map(&asked["properties"])).await?;
        }
        "namespaces" => {
            let parent = if asked["namespace"].is_null() { None } else { Some(named("namespace")?) };
            let found = lake.list_namespaces(parent.as_ref()).await?;
            return Ok(json!(found.into_iter().map(NamespaceIdent::inner).collect::<Vec<_>>()));
        }
        "namespace exists" => return Ok(json!(lake.namespace_exists(&named("namespace")?).await?)),
        "namespace properties" => {
            return Ok(json!(lake.get_namespace(&named("namespace")?).await?.properties()));
        }
        "drop namespace" => lake.drop_namespace(&named("namespace")?).await?,
        "create table" => create_table(lake, asked).await?,
        "tables" => {
            let found = lake.list_tables(&named("namespace")?).await?;
            return Ok(json!(found.iter().map(|each| each.name()).collect::<Vec<_>>()));
        }
        "table exists" => return Ok(json!(lake.table_exists(&table("table")?).await?)),
        "rename table" => lake.rename_table(&table("table")?, &table("to")?).await?,
        "register table" => {
            lake.register_table(&table("table")?, string(&asked["location"])).await?;
        }
        "drop table" => lake.drop_table(&table("table")?).await?,
        "purge table" => lake.purge_table(&table("table")?).await?,
        other => return run_on(lake, lake.load_table(&table("table")?).await?, other, asked).await,
    }
    Ok(Value::Null)
}

async fn run_on(lake: &RestCatalog, table: Table, wanted: &str, asked: &Value) -> Answer<Value> {
    let txn = Transaction::new(&table);
    let txn = match wanted {
        "load table" => return Ok(describe(&table)),
        "read" => return read(&table, asked).await,
        "append" => {
            let files = write(&table, &asked["rows"]).await?;
            txn.fast_append().add_data_files(files).apply(txn)?
        }
        "set properties" => {
            let mut action = txn.update_table_properties();
            for (key, value) in map(&asked["properties"]) {
                action = action.set(key, value);
            }
            action.apply(txn)?
        }
        "add column" => {
            let column = AddColumn::optional(string(&asked["name"]), Type::Primitive(PrimitiveType::String));
            txn.update_schema().add_column(column).apply(txn)?
        }
        "drop column" => txn.update_schema().delete_column(string(&asked["name"])).apply(txn)?,
        "upgrade" => txn.upgrade_table_version().set_format_version(FormatVersion::V3).apply(txn)?,
        "expire" => txn.expire_snapshots().retain_last(1).expire_older_than_ms(i64::MAX).apply(txn)?,
        _ => return Err(format!("unknown command {wanted:?}").into()),
    };
    Ok(describe(&txn.commit(lake).await?))
}

async fn create_table(lake: &RestCatalog, asked: &Value) -> Answer<()> {
    let mut name = strings(&asked["table"]);
    let last = name.pop().unwrap_or_default();
    let schema: Schema = serde_json::from_value(asked["schema"].clone())?;
    let properties = map(&asked["properties"]);
    let version = match properties.get("format-version").map(String::as_str) {
        Some("3") => FormatVersion::V3,
        _ => FormatVersion::V2,
    };
    let spec = match asked["partition"].as_str() {
        Some(column) => {
            let id = schema.field_id_by_name(column).ok_or("no such column")?;
            Some(UnboundPartitionSpec::builder().add_partition_field(id, column, Transform::Identity)?.build())
        }
        None => None,
    };
    let creation = TableCreation::builder()
        .name(last)
        .schema(schema)
        .properties(properties)
        .format_version(version)
        .partition_spec_opt(spec)
        .build();
    lake.create_table(&NamespaceIdent::from_vec(name)?, creation).await?;
    Ok(())
}

async fn write(table: &Table, rows: &Value) -> Answer<Vec<DataFile>> {
    let metadata = table.metadata();
    let schema = Arc::new(schema_to_arrow_schema(metadata.current_schema())?);
    let mut decoder = ReaderBuilder::new(schema).build_decoder()?;
    decoder.serialize(rows.as_array().ok_or("rows are a list")?)?;
    let batch: RecordBatch = decoder.flush()?.ok_or("no rows")?;

    let parquet = ParquetWriterBuilder::new(WriterProperties::default(), metadata.current_schema().clone());
    let names = DefaultFileNameGenerator::new(format!("{}", uuid()), None, DataFileFormat::Parquet);
    let rolling = RollingFileWriterBuilder::new_with_default_file_size(
        parquet,
        table.file_io().clone(),
        DefaultLocationGenerator::new(metadata)?,
        names,
    );
    let files = DataFileWriterBuilder::new(rolling);
    if metadata.default_partition_spec().is_unpartitioned() {
        let mut writer = files.build(None).await?;
        writer.write(batch).await?;
        return Ok(writer.close().await?);
    }
    let splitter = RecordBatchPartitionSplitter::try_new_with_computed_values(
        metadata.current_schema().clone(),
        metadata.default_partition_spec().clone(),
    )?;
    let mut writer = FanoutWriter::new(files);
    for (key, part) in splitter.split(&batch)? {
        writer.write(key, part).await?;
    }
    Ok(writer.close().await?)
}

async fn read(table: &Table, asked: &Value) -> Answer<Value> {
    let mut scan = table.scan().select_all();
    if let Some(filter) = asked.get("filter") {
        scan = scan.with_filter(predicate(filter)?);
    }
    let snapshot = match asked["ref"].as_str() {
        Some(name) => Some(table.metadata().snapshot_for_ref(name).ok_or("no such ref")?.snapshot_id()),
        None => asked["snapshot"].as_i64(),
    };
    if let Some(id) = snapshot {
        scan = scan.snapshot_id(id);
    }
    let batches: Vec<RecordBatch> = scan.build()?.to_arrow().await?.try_collect().await?;
    let mut writer = ArrayWriter::new(Vec::new());
    writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
    writer.finish()?;
    let rendered = writer.into_inner();
    Ok(if rendered.is_empty() { json!([]) } else { serde_json::from_slice(&rendered)? })
}

// The part of the filters of the protocol that the tests send: comparisons of a column with a whole number or a text.
fn predicate(filter: &Value) -> Answer<Predicate> {
    let column = Reference::new(string(&filter["term"]));
    let value = || match &filter["value"] {
        Value::Number(number) => Datum::long(number.as_i64().unwrap_or_default()),
        other => Datum::string(string(other)),
    };
    Ok(match filter["type"].as_str().unwrap_or_default() {
        "eq" => column.equal_to(value()),
        "gt" => column.greater_than(value()),
        "lt" => column.less_than(value()),
        "is-null" => column.is_null(),
        other => return Err(format!("unknown filter {other:?}").into()),
    })
}

fn describe(table: &Table) -> Value {
    let metadata = table.metadata();
    json!({
        "format-version": metadata.format_version() as u8,
        "location": metadata.location(),
        "metadata-location": table.metadata_location(),
        "properties": metadata.properties(),
        "snapshots": metadata.snapshots().map(|each| each.snapshot_id()).collect::<Vec<_>>(),
    })
}

fn uuid() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().map(|all| all.iter().map(string).collect()).unwrap_or_default()
}

fn map(value: &Value) -> HashMap<String, String> {
    serde_json::from_value(value.clone()).unwrap_or_default()
}
