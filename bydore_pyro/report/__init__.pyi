from .checks import check_table as check_table
from .checks import check_text as check_text
from .page import add_html_report as add_html_report
from .page import html_report as html_report
from .text import report_text as report_text
