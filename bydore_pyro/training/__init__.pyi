from .config import TargetConfig as TargetConfig
from .order import MixtureState as MixtureState
from .order import begin as begin
from .order import next_batch as next_batch
from .stages import SCHEDULE as SCHEDULE
from .stages import Stages as Stages
from .stages import read_stages as read_stages
from .training import train_target as train_target
