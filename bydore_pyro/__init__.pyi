from .core import FeatureNetwork as FeatureNetwork
from .core import FreeConcentrations as FreeConcentrations
from .core import GammaDirichlet as GammaDirichlet
from .core import HypergradientELBO as HypergradientELBO
from .core import InferenceConfig as InferenceConfig
from .core import MixtureGuide as MixtureGuide
from .core import PriorNetwork as PriorNetwork
from .core import SparseDirichlet as SparseDirichlet
from .core import corrected_draws as corrected_draws
from .core import finite_difference as finite_difference
from .core import infer as infer
from .core import mixture_model as mixture_model
from .data import Domains as Domains
from .data import load_tokens as load_tokens
from .law import best_mixture as best_mixture
from .law import fit_law as fit_law
from .measure import MatchingConfig as MatchingConfig
from .mixture import Mixture as Mixture
from .notebook import Run as Run
from .notebook import open_run as open_run
from .notebook import run_fit as run_fit
from .notebook import run_search as run_search
from .proxy import Proxy as Proxy
from .proxy import ProxyConfig as ProxyConfig
from .proxy import build_language_model as build_language_model

__version__: str
