from .formats import FORMATS as FORMATS
from .formats import ExportConfig as ExportConfig
from .write import Exported as Exported
from .write import export as export
from .write import export_from as export_from
from .write import index_of_run as index_of_run
