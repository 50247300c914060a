
set edit:completion:arg-completer[monopile] = { |@words|
    var index = (count $words)
    set index = (- $index 1)

    put (env _CLAP_IFS="\n" _CLAP_COMPLETE_INDEX=(to-string $index) MONOPILE_COMPLETE="elvish" monopile -- $@words) | to-lines
}

