"""Residuals of infinities, evaluated by Iceberg's Java library beside the filter that it sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from tests.services.java_plans import JavaPlanner
from tests.unit.planning.planned_files import new_planner, plan_table
from tests.unit.planning.small_tables import SmallTable, data_file

_SOURCE = """
import java.util.*;
import org.apache.iceberg.*;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.expressions.*;
import org.apache.iceberg.types.*;

public class Residuals {
  private static Schema schema(boolean isFloat) {
    Type type = isFloat ? (Type) Types.FloatType.get() : (Type) Types.DoubleType.get();
    return new Schema(Arrays.asList(new Types.NestedField[] {Types.NestedField.optional(1, "x", type)}));
  }

  private static Object value(String text, boolean isFloat) {
    if (text.equals("null")) return null;
    return isFloat ? (Object) Float.valueOf(text) : (Object) Double.valueOf(text);
  }

  public static Expression filter(String operation, String values, boolean isFloat) {
    Expression.Operation op = Expression.Operation.fromString(operation.replace('-', '_'));
    List literals = new ArrayList();
    String[] texts = values.split(" ");
    for (int i = 0; i < texts.length; i++) literals.add(value(texts[i], isFloat));
    UnboundTerm term = Expressions.ref("x");
    return Expressions.predicate(op, term, (Iterable) literals);
  }

  public static String json(Expression filter) {
    return ExpressionParser.toJson(filter);
  }

  public static String rows(Expression filter, String rows, boolean isFloat) {
    Schema schema = schema(isFloat);
    Evaluator evaluator = new Evaluator(schema.asStruct(), filter, true);
    GenericRecord record = GenericRecord.create(schema);
    StringBuilder out = new StringBuilder();
    String[] texts = rows.split(" ");
    for (int i = 0; i < texts.length; i++) {
      record.set(0, value(texts[i], isFloat));
      out.append(evaluator.eval(record) ? '1' : '0');
    }
    return out.toString();
  }

  public static String left(String residual, String rows, boolean isFloat) {
    return rows(ExpressionParser.fromJson(residual), rows, isFloat);
  }
}
"""
_GREATEST = {"float": "3.4028235E38", "double": "1.7976931348623157E308"}


@pytest.fixture(scope="module")
def java(iceberg_java: JavaGateway) -> JavaPlanner:
    return JavaPlanner(iceberg_java)


@pytest.fixture(scope="module")
def residuals(java: JavaPlanner) -> dict[str, Any]:
    return java.compile(_SOURCE, "Residuals")


@pytest.mark.parametrize("type", ["float", "double"])
@pytest.mark.parametrize("operation", ["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "in", "not-in"])
def test_the_same_rows_pass(
    java: JavaPlanner, residuals: dict[str, Any], tmp_path: Path, type: str, operation: str
) -> None:
    table = SmallTable(tmp_path, [{1: ("x", type)}])
    table.add(data_file("f"))
    is_float, greatest = type == "float", _GREATEST[type]
    rows = f"-Infinity -{greatest} -1.5 1.5 {greatest} Infinity NaN null"
    for value in ("Infinity", "-Infinity", greatest, f"-{greatest}", "1.5"):
        values = f"{value} 1.5 -Infinity {greatest}" if operation.endswith("in") else value
        filter = java.invoke(residuals["filter"], operation, values, is_float)
        sent = json.loads(java.invoke(residuals["json"], filter))
        planned = plan_table(new_planner(), table.metadata(), sent)
        # no file is left where nothing passes
        residual = json.dumps(planned[0].residual if planned else False)
        expected = java.invoke(residuals["rows"], filter, rows, is_float)
        found = java.invoke(residuals["left"], residual, rows, is_float)
        # it takes a null for less than all numbers
        assert found[:-1] == expected[:-1], (sent, residual)
        assert operation.startswith("lt") or found[-1] == expected[-1], (sent, residual)
