"""Entry point of `python -m memctl`."""

import sys

from memctl.entry import main

sys.exit(main())
