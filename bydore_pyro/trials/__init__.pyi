from .problem import Problem as Problem
from .proxy_runs import FinishedRun as FinishedRun
from .proxy_runs import PlannedRun as PlannedRun
from .proxy_runs import load_model as load_model
from .proxy_runs import train_mixtures as train_mixtures
from .proxy_runs import train_runs as train_runs
