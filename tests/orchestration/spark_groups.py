"""Works on offered groups on Spark; run by a Python of another environment."""

from floecat.runtime import open_kernel
from floecat.settings import load_settings
from floecat_assets.spark.capture_groups import SparkGroups
from floecat_assets.spark.data_files import FileBounds
from floecat_assets.spark.sessions import SparkPlace, open_session

PLACE = SparkPlace(master="local[2]", conf={"spark.driver.host": "127.0.0.1"})

if __name__ == "__main__":
    kernel = open_kernel(load_settings())
    session = open_session(PLACE)
    groups = SparkGroups(lambda: session, FileBounds.of(kernel.settings.statistics))
    outcomes = [worked.outcome for _, worked in groups.work_on_all(kernel.statistics.pipeline)]
    print(session.version, groups.files, *outcomes)
    session.stop()
    kernel.close()
