"""The version of the running distribution."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("npu-warden")
except PackageNotFoundError:  # a source tree that nobody installed
    VERSION = "0.0.0"
