"""Answers about scans, read by the parsers of Iceberg's Java library.

The parsers of 1.10 read only the spelling before 1.11: content and format in upper case, and partitions as
objects. `respelled` changes an answer to it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from py4j.java_gateway import JavaGateway

__all__ = ["JavaAnswers", "ReadTask", "respelled"]

_SOURCE = """
import java.util.*;
import org.apache.iceberg.*;
import org.apache.iceberg.expressions.*;
import org.apache.iceberg.rest.responses.*;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.*;

public class Answers {
  public static Map specs(String metadata) {
    return TableMetadataParser.fromJson(metadata).specsById();
  }

  public static String plan(String json, Map specs) {
    PlanTableScanResponse answer = PlanTableScanResponseParser.fromJson(node(json), specs, true);
    answer.validate();
    return answer.planStatus() + "\\n" + answer.planTasks() + "\\n" + tasks(answer.fileScanTasks());
  }

  public static String result(String json, Map specs) {
    FetchPlanningResultResponse answer = FetchPlanningResultResponseParser.fromJson(node(json), specs, true);
    answer.validate();
    return answer.planStatus() + "\\n" + answer.planTasks() + "\\n" + tasks(answer.fileScanTasks());
  }

  public static String fetched(String json, Map specs) {
    FetchScanTasksResponse answer = FetchScanTasksResponseParser.fromJson(node(json), specs, true);
    answer.validate();
    return "\\n" + answer.planTasks() + "\\n" + tasks(answer.fileScanTasks());
  }

  private static JsonNode node(String json) {
    try {
      return new ObjectMapper().readTree(json);
    } catch (java.io.IOException e) {
      throw new IllegalArgumentException(e);
    }
  }

  private static String tasks(List tasks) {
    StringBuilder out = new StringBuilder();
    if (tasks == null) return "";
    for (Iterator it = tasks.iterator(); it.hasNext();) {
      FileScanTask task = (FileScanTask) it.next();
      DataFile file = (DataFile) task.file();
      out.append(file.path()).append('\\t');
      for (Iterator d = task.deletes().iterator(); d.hasNext();) {
        DeleteFile delete = (DeleteFile) d.next();
        boolean global = delete.content() == FileContent.EQUALITY_DELETES && delete.partition().size() == 0;
        if (!global && (delete.specId() != file.specId() || !delete.partition().equals(file.partition())))
          throw new IllegalStateException("partition of " + delete.path());
        out.append(delete.path()).append('@').append(delete.contentOffset()).append(' ');
      }
      out.append('\\t').append(ExpressionParser.toJson(task.residual())).append('\\n');
    }
    return out.toString();
  }
}
"""


class ReadTask(NamedTuple):
    """A file scan task as Java has it."""

    path: str
    deletes: Sequence[str]
    """Path and content offset."""
    residual: Any


class ReadAnswer(NamedTuple):
    """An answer as Java has it."""

    status: str
    plan_tasks: str
    tasks: Sequence[ReadTask]


class JavaAnswers:
    """Parsers in a JVM that has Iceberg, Hadoop and Janino."""

    def __init__(self, gateway: JavaGateway) -> None:
        jvm: Any = gateway.jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
        compiler.cook(_SOURCE)
        methods = compiler.getClassLoader().loadClass("Answers").getMethods()
        self._methods = {method.getName(): method for method in methods}
        self._gateway = gateway

    def read(self, kind: str, answer: Mapping[str, Any], metadata: Mapping[str, Any]) -> ReadAnswer:
        """Reads an answer.

        Args:
            kind: `plan`, `result` or `fetched`.
            answer: decoded JSON, as the specification has it.
            metadata: of the table.
        """
        specs = self._call("specs", json.dumps(metadata))
        read = self._call(kind, json.dumps(respelled(answer, metadata)), specs)
        status, plan_tasks, *lines = read.rstrip("\n").split("\n")
        tasks = []
        for line in lines:
            path, deletes, residual = line.split("\t")
            tasks.append(ReadTask(path, tuple(deletes.split()), json.loads(residual)))
        return ReadAnswer(status, plan_tasks, tasks)

    def _call(self, name: str, *arguments: Any) -> Any:
        array = self._gateway.new_array(self._gateway.jvm.Object, len(arguments))
        for place, argument in enumerate(arguments):
            array[place] = argument
        return self._methods[name].invoke(None, array)


def respelled(answer: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """An answer in the spelling before Iceberg 1.11."""
    specs = {spec["spec-id"]: spec["fields"] for spec in metadata["partition-specs"]}
    made: dict[str, Any] = copy.deepcopy(dict(answer))
    files = [task["data-file"] for task in made.get("file-scan-tasks", ())] + made.get("delete-files", [])
    for file in files:
        file["content"] = file["content"].upper().replace("-", "_")
        file["file-format"] = file["file-format"].upper()
        ids = (str(field["field-id"]) for field in specs[file["spec-id"]])
        file["partition"] = dict(zip(ids, file["partition"], strict=True))
    return made
