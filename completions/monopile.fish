complete --keep-order --exclusive --command monopile --arguments "(MONOPILE_COMPLETE=fish monopile -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
