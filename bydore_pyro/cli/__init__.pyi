from .ask import AskOptions as AskOptions
from .ask import run_ask as run_ask
from .fit import SMALL as SMALL
from .fit import FitOptions as FitOptions
from .fit import run_fit as run_fit
from .search import run_search as run_search
