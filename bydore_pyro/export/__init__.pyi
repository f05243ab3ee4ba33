from .formats import FORMATS as FORMATS
from .formats import ExportConfig as ExportConfig
from .inputs import InputConfig as InputConfig
from .inputs import read_inputs as read_inputs
from .write import export as export
