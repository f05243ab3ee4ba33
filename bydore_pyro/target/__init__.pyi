from .config import TargetConfig as TargetConfig
from .mixture_schedule import read_schedule as read_schedule
from .training import train_target as train_target
