from .formats import FORMATS as FORMATS
from .formats import ExportConfig as ExportConfig
from .shares import tokens_per_document as tokens_per_document
from .units import converted as converted
from .units import tokens_per_byte as tokens_per_byte
from .write import export as export
