"""Entry point of `python -m memctl`."""

import sys

from memctl.main import main

sys.exit(main())
