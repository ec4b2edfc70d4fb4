"""Plans of Iceberg's Java library: the metadata of a table in, file scan tasks out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

__all__ = ["JavaPlanner", "JavaRefusal", "JavaTask"]

_SOURCE = """
import java.util.*;
import org.apache.iceberg.*;
import org.apache.iceberg.expressions.*;
import org.apache.iceberg.io.*;

public class Plans {
  public static Table load(String metadata, Object conf) {
    FileIO io = new org.apache.iceberg.hadoop.HadoopFileIO((org.apache.hadoop.conf.Configuration) conf);
    return new BaseTable(new StaticTableOperations(metadata, io), "t");
  }

  public static String plan(Table table, String filter, boolean typed) throws Exception {
    Schema schema = typed ? table.schema() : null;
    Expression e = ExpressionParser.fromJson(filter, schema);
    TableScan scan = (TableScan) table.newScan().filter(e);
    StringBuilder out = new StringBuilder();
    CloseableIterable tasks = scan.planFiles();
    for (Iterator it = tasks.iterator(); it.hasNext();) {
      FileScanTask task = (FileScanTask) it.next();
      out.append(((DataFile) task.file()).path()).append('\\t');
      for (Iterator d = task.deletes().iterator(); d.hasNext();) {
        DeleteFile file = (DeleteFile) d.next();
        out.append(file.path()).append('@').append(file.contentOffset()).append(' ');
      }
      out.append('\\t').append(residual(task)).append('\\n');
    }
    tasks.close();
    return out.toString();
  }

  private static String residual(FileScanTask task) {
    try {
      return ExpressionParser.toJson(task.residual());
    } catch (RuntimeException e) {
      return "\\"" + e.getClass().getSimpleName() + "\\"";
    }
  }

  public static long[] time(Table table, Expression filter, int times) throws Exception {
    long[] out = new long[times + 2];
    for (int i = 0; i < times; i++) {
      long start = System.nanoTime();
      long found = 0;
      long first = 0;
      CloseableIterable tasks = ((TableScan) table.newScan().filter(filter)).planFiles();
      for (Iterator it = tasks.iterator(); it.hasNext(); it.next()) {
        if (found++ == 0) first = System.nanoTime() - start;
      }
      tasks.close();
      out[i] = (System.nanoTime() - start) / 1000L;
      out[times] = found;
      if (i == 0) out[times + 1] = first / 1000L;
    }
    return out;
  }
}
"""


class JavaRefusal(Exception):
    """Java does not plan this filter."""


@dataclass(frozen=True)
class JavaTask:
    """A file scan task.

    Attributes:
        path: of the data file.
        deletes: paths of delete files, with `@` and the offset of a deletion vector or `null`.
        residual: JSON; a string is the exception that asking for it threw.
    """

    path: str
    deletes: frozenset[str]
    residual: Any


class JavaPlanner:
    """Plans scans in a JVM that has Iceberg, Hadoop and Janino."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.jvm: Any = gateway.jvm
        self._gateway = gateway
        self._methods = self.compile(_SOURCE, "Plans")
        self.conf = self.jvm.org.apache.hadoop.conf.Configuration()

    def compile(self, source: str, name: str) -> dict[str, Any]:
        """The static methods of a class, by name."""
        compiler = self.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(self.jvm.Thread.currentThread().getContextClassLoader())
        compiler.cook(source)
        methods = compiler.getClassLoader().loadClass(name).getMethods()
        return {method.getName(): method for method in methods}

    def load(self, metadata_location: str) -> Any:
        """The table of a metadata file."""
        return self._call("load", metadata_location, self.conf)

    def plan(self, table: Any, filter: object, *, typed: bool = True) -> Iterator[JavaTask]:
        """Plans a scan of the current snapshot.

        Args:
            table: from `load`.
            filter: JSON, legacy spelling.
            typed: whether literals are read as the types of their columns. Literals of nanoseconds become a
                thousand times as large then; without it binary literals are refused.

        Raises:
            JavaRefusal: the filter cannot be bound or evaluated.
        """
        try:
            found = self._call("plan", table, json.dumps(filter), typed)
        except Py4JJavaError as error:
            raise JavaRefusal(str(error)[:500]) from None
        for line in found.splitlines():
            path, deletes, residual = line.split("\t")
            yield JavaTask(path, frozenset(deletes.split()), json.loads(residual))

    def time(self, table: Any, filter: object, times: int) -> tuple[list[float], int, float]:
        """Milliseconds of each of several scans, the number of tasks, and those until the first task."""
        expression = self.jvm.org.apache.iceberg.expressions.ExpressionParser.fromJson(
            json.dumps(filter), table.schema()
        )
        found = list(self._call("time", table, expression, times))
        return [each / 1000 for each in found[:times]], int(found[times]), found[times + 1] / 1000

    def invoke(self, method: Any, *arguments: Any) -> Any:
        """Calls a static method."""
        array = self._gateway.new_array(self.jvm.Object, len(arguments))
        for place, argument in enumerate(arguments):
            array[place] = argument
        return method.invoke(None, array)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self.invoke(self._methods[name], *arguments)
