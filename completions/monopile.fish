# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_monopile_global_optspecs
    string join \n v/version n/non-interactive json tty no-color parallel= cache-dir= sha2 verbose h/help
end

function __fish_monopile_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_monopile_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_monopile_using_subcommand
    set -l cmd (__fish_monopile_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c monopile -n "__fish_monopile_needs_command" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_needs_command" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_needs_command" -s v -s V -l version -d 'Show the version'
complete -c monopile -n "__fish_monopile_needs_command" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_needs_command" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_needs_command" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_needs_command" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_needs_command" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_needs_command" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_needs_command" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "create-env" -d 'Create or update an environment'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "plan" -d 'Say what create-env would do and why, and do nothing'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "delete-env" -d 'Delete an environment: its VM, disks, stemcells and state'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "stop-env" -d 'Stop the jobs of an environment; VM and disks stay'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "start-env" -d 'Start the jobs that stop-env stopped'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "restart" -d 'Stop the jobs of an environment and start them again'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "recreate" -d 'Deploy what is deployed with a new VM; persistent disks keep their data'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "status" -d 'Show how an environment is doing: VM, agent, jobs, disks, networks, certificates, last runs'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "history" -d 'Show the runs on this machine: when, how long, what came of them'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "logs" -d 'Print what the jobs of an environment, its agent or its system wrote; or save it'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "ssh" -d 'Log in to the VM of an environment, as a user who exists for that session alone'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "scp" -d 'Copy files to or from the VM of an environment'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "cloud-check" -d 'See whether VM, agent and disks are as they should be, and put right what is not'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "cck" -d 'See whether VM, agent and disks are as they should be, and put right what is not'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "interpolate" -d 'Print a manifest with ops files applied and variables filled in'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "int" -d 'Print a manifest with ops files applied and variables filled in'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "vars" -d 'Look into a vars store, check it, renew what is in it'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "render" -d 'Print what a job\'s files would be, without deploying'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "render-template" -d 'Print what a template becomes in an evaluation context'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "inspect-local-release" -d 'Show what is in a release'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "inspect-local-stemcell" -d 'Show what a stemcell is'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "repack-stemcell" -d 'Make a stemcell from another one'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "sha1ify-release" -d 'Convert a release tarball to SHA-1 digests'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "sha2ify-release" -d 'Convert a release tarball to SHA-256 digests'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "state" -d 'Look at what is on record, compare it with the world, mend it'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "cpi" -d 'Ask a CPI by hand, put it to the test, put it on record'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "cache" -d 'Look into the cache, make it smaller'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "baremetal" -d 'Look into a standalone Ironic, keep its volume connectors and targets'
complete -c monopile -n "__fish_monopile_needs_command" -f -a "completion" -d 'Print the completion script of a shell'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l update-strategy -d 'How a change comes to a VM that exists' -r -f -a "in-place\t'In the VM that runs where that is possible; else with a new one'
recreate\t'Always with a new VM'"
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l drain-timeout -d 'Stop jobs that still drain after this time' -r
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l agent-timeout -d 'How long the agent on the new VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l templates -d 'What renders job templates' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l package-dir -d 'Where the CPI\'s packages are installed, instead of the cache' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l cpi-timeout -d 'Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l plan -d 'Do what `monopile plan --out FILE` planned, and refuse if that is not what is needed any more' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l recreate -d 'Deploy even if nothing changed, with a new VM'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l recreate-persistent-disks -d 'Move the data of persistent disks to new ones'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l no-verify -d 'If nothing changed, don\'t look whether VM and agent are still there'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l skip-drain -d 'Don\'t run drain and pre-stop scripts'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l forget-open-calls -d 'Drop calls of an interrupted run whose outcome cannot be known'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l keep-workdir -d 'Keep the scratch directory of this run, for a look at what went wrong; it holds credentials'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l dry-run -d 'Only say what would be done, as `plan` does'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand create-env" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand plan" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand plan" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l update-strategy -d 'How a change comes to a VM that exists' -r -f -a "in-place\t'In the VM that runs where that is possible; else with a new one'
recreate\t'Always with a new VM'"
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l drain-timeout -d 'Stop jobs that still drain after this time' -r
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l agent-timeout -d 'How long the agent on the new VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l templates -d 'What renders job templates' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l package-dir -d 'Where the CPI\'s packages are installed, instead of the cache' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l cpi-timeout -d 'Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l out -d 'Save the plan, for `create-env --plan FILE`' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l recreate -d 'Deploy even if nothing changed, with a new VM'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l recreate-persistent-disks -d 'Move the data of persistent disks to new ones'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l no-verify -d 'If nothing changed, don\'t look whether VM and agent are still there'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l skip-drain -d 'Don\'t run drain and pre-stop scripts'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l forget-open-calls -d 'Drop calls of an interrupted run whose outcome cannot be known'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l keep-workdir -d 'Keep the scratch directory of this run, for a look at what went wrong; it holds credentials'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l detailed-exitcode -d 'End with exit code 7 when there is something to do'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l drain-timeout -d 'Stop jobs that still drain after this time' -r
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l agent-timeout -d 'How long the agent on the VM may take to answer; after that, the VM is deleted without stopping its jobs' -r
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l templates -d 'What renders job templates' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l package-dir -d 'Where the CPI\'s packages are installed, instead of the cache' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l cpi-timeout -d 'Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l allow-missing -d 'Succeed if there is no state file'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l skip-drain -d 'Don\'t run drain and pre-stop scripts'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l forget-open-calls -d 'Drop calls of an interrupted run whose outcome cannot be known'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l keep-workdir -d 'Keep the scratch directory of this run, for a look at what went wrong; it holds credentials'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand delete-env" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l drain-timeout -d 'Stop jobs that still drain after this time' -r
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l agent-timeout -d 'How long the agent on the VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l skip-drain -d 'Don\'t run drain and pre-stop scripts'
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand stop-env" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l agent-timeout -d 'How long the agent on the VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand start-env" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand restart" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand restart" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand restart" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l drain-timeout -d 'Stop jobs that still drain after this time' -r
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l agent-timeout -d 'How long the agent on the VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l skip-drain -d 'Don\'t run drain and pre-stop scripts'
complete -c monopile -n "__fish_monopile_using_subcommand restart" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand restart" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand restart" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l drain-timeout -d 'Stop jobs that still drain after this time' -r
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l boot-timeout -d 'How long the agent on the new VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l templates -d 'What renders job templates' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l package-dir -d 'Where the CPI\'s packages are installed, instead of the cache' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l cpi-timeout -d 'Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l skip-drain -d 'Don\'t run drain and pre-stop scripts'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l forget-open-calls -d 'Drop calls of an interrupted run whose outcome cannot be known'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand recreate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand status" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand status" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand status" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand status" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand status" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand status" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand status" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand status" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand status" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand status" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand status" -l interval -d '(--watch) How long to wait in between' -r
complete -c monopile -n "__fish_monopile_using_subcommand status" -l agent-timeout -d 'How long the agent may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand status" -l templates -d 'What renders job templates of the CPI' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand status" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand status" -l cpi-timeout -d 'Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand status" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand status" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand status" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand status" -l watch -d 'Look again and again, until Ctrl-C'
complete -c monopile -n "__fish_monopile_using_subcommand status" -l no-cpi -d 'Don\'t ask the CPI what exists'
complete -c monopile -n "__fish_monopile_using_subcommand status" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand status" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand status" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand status" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand status" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand status" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand history" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand history" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand history" -l limit -d 'How many runs, the newest' -r
complete -c monopile -n "__fish_monopile_using_subcommand history" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand history" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand history" -l steps -d 'Show the steps of each run, with their durations'
complete -c monopile -n "__fish_monopile_using_subcommand history" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand history" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand history" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand history" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand history" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand history" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand history" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand logs" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand logs" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l job -d 'Only the logs of this job; several times for several' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l filter -l only -d 'Only logs whose name matches: `hello/*.log`; several times, or with commas, for several' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l num -d 'Only the last so many lines of each file' -r
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l dir -d 'Save them as a tarball in this directory' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l out -d 'Save them as this tarball' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l agent-timeout -d 'How long the agent may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l agent -d 'The agent\'s logs instead of the jobs\''
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l system -d 'The system\'s logs (/var/log) instead of the jobs\''
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l all-logs -d 'The logs of jobs, agent and system'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -s f -l follow -d 'Go on with what is added, until Ctrl-C'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -s q -l quiet -d 'Don\'t print the names of files'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand logs" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -s c -l command -d 'Run this command there instead of a login shell; several times for the words of one command' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l gw-host -d 'Go through this jump host' -r -f -a "(__fish_print_hostnames)"
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l gw-user -d 'Who logs in at the jump host' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l gw-private-key -d 'The key that opens the jump host' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l gw-socks5 -d 'Go through this SOCKS proxy: socks5://HOST:PORT, or ssh+socks5://USER@HOST:PORT?private-key=PATH' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -s i -l private-key -d 'Log in with this key, which the VM knows already, and without the agent' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l username -d '(--private-key) Who logs in' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l opts -d 'Options for ssh or scp, as they are: --opts=\'-o Port=2222\'; several times for several' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l agent-timeout -d 'How long the agent may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l gw-disable -d 'Go straight to the VM, whatever flags and variables say'
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand ssh" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand scp" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand scp" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l gw-host -d 'Go through this jump host' -r -f -a "(__fish_print_hostnames)"
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l gw-user -d 'Who logs in at the jump host' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l gw-private-key -d 'The key that opens the jump host' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l gw-socks5 -d 'Go through this SOCKS proxy: socks5://HOST:PORT, or ssh+socks5://USER@HOST:PORT?private-key=PATH' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand scp" -s i -l private-key -d 'Log in with this key, which the VM knows already, and without the agent' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l username -d '(--private-key) Who logs in' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l opts -d 'Options for ssh or scp, as they are: --opts=\'-o Port=2222\'; several times for several' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l agent-timeout -d 'How long the agent may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -s r -l recursive -d 'Copy directories with all that is in them'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l gw-disable -d 'Go straight to the VM, whatever flags and variables say'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand scp" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l drain-timeout -d 'Stop jobs that still drain after this time' -r
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l boot-timeout -d 'How long the agent on the new VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l templates -d 'What renders job templates' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l package-dir -d 'Where the CPI\'s packages are installed, instead of the cache' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l cpi-timeout -d 'Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l resolution -d 'Put right what this one does, without asking; several times for several' -r -f -a "reboot_vm\t''
recreate_vm\t''
reattach_disk\t''
mount_disk\t''
delete_disk_reference\t''"
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l agent-timeout -d 'How long the agent may take to answer before it counts as dead' -r
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l skip-drain -d 'Don\'t run drain and pre-stop scripts'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l forget-open-calls -d 'Drop calls of an interrupted run whose outcome cannot be known'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -s a -l auto -d 'Put right all that can be without a loss, without asking'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -s r -l report -d 'Only say what is wrong'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cloud-check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cck" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cck" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l drain-timeout -d 'Stop jobs that still drain after this time' -r
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l boot-timeout -d 'How long the agent on the new VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l templates -d 'What renders job templates' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l package-dir -d 'Where the CPI\'s packages are installed, instead of the cache' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l cpi-timeout -d 'Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l resolution -d 'Put right what this one does, without asking; several times for several' -r -f -a "reboot_vm\t''
recreate_vm\t''
reattach_disk\t''
mount_disk\t''
delete_disk_reference\t''"
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l agent-timeout -d 'How long the agent may take to answer before it counts as dead' -r
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l skip-drain -d 'Don\'t run drain and pre-stop scripts'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l forget-open-calls -d 'Drop calls of an interrupted run whose outcome cannot be known'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -s a -l auto -d 'Put right all that can be without a loss, without asking'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -s r -l report -d 'Only say what is wrong'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cck" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l path -d 'Print the value at this path alone, such as /instance_groups/name=bosh/jobs/0' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l var-errs -d 'Fail if a variable has no value'
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l var-errs-unused -d 'Fail if a given variable is not used'
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand interpolate" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand int" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand int" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand int" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand int" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand int" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand int" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand int" -l path -d 'Print the value at this path alone, such as /instance_groups/name=bosh/jobs/0' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand int" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand int" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand int" -l var-errs -d 'Fail if a variable has no value'
complete -c monopile -n "__fish_monopile_using_subcommand int" -l var-errs-unused -d 'Fail if a given variable is not used'
complete -c monopile -n "__fish_monopile_using_subcommand int" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand int" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand int" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand int" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand int" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand int" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand int" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -f -a "list" -d 'Show what is in a vars store, without the secrets'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -f -a "check" -d 'Check certificates, keys and, with -l, that values are what manifests declare'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and not __fish_seen_subcommand_from list check rotate" -f -a "rotate" -d 'Make a new value; for a CA also for everything that it signed'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from list" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from list" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from list" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from list" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from list" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from list" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from list" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from list" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -s l -l manifest -d 'Manifest whose `variables:` say what values are to be' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -s o -l ops-file -d 'Apply operations from a YAML file to the manifests' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -s v -l var -d 'Set a variable that options refer to; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -l vars-file -d 'Load variables that options refer to from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -l within -d 'How long certificates must still be valid: 30d, 12h, 2w' -r
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -s l -l manifest -d 'Manifest whose `variables:` say what values are to be' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -s o -l ops-file -d 'Apply operations from a YAML file to the manifests' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -s v -l var -d 'Set a variable that options refer to; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -l vars-file -d 'Load variables that options refer to from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -l finish -d 'Second step of a CA\'s rotation: drop the old certificate'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand vars; and __fish_seen_subcommand_from rotate" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand render" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand render" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand render" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand render" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand render" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand render" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand render" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand render" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand render" -l job -d 'The job, of the instance group or of the CPI' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand render" -l out -d 'Write the files below this directory instead' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand render" -l templates -d 'What renders job templates' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand render" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand render" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand render" -l show-secrets -d 'Show secrets instead of <redacted>'
complete -c monopile -n "__fish_monopile_using_subcommand render" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand render" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand render" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand render" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand render" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand render" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand render" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -l context -d 'The evaluation context as JSON: index, job, networks, job_properties, default_properties, …' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -l templates -d 'What renders the template' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand render-template" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-release" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-release" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-release" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-release" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-release" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-release" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-release" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-release" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-release" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-stemcell" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-stemcell" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-stemcell" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-stemcell" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-stemcell" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-stemcell" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-stemcell" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-stemcell" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand inspect-local-stemcell" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l name -d 'Another name' -r
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l version -d 'Another version' -r
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l cloud-properties -d 'A YAML mapping that is merged into the cloud properties' -r
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l format -d 'Another format, in place of those it has; several times for several' -r
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l empty-image -d 'An image of no bytes'
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand repack-stemcell" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand sha1ify-release" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand sha1ify-release" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand sha1ify-release" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand sha1ify-release" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand sha1ify-release" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand sha1ify-release" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand sha1ify-release" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand sha1ify-release" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand sha1ify-release" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand sha2ify-release" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand sha2ify-release" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand sha2ify-release" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand sha2ify-release" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand sha2ify-release" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand sha2ify-release" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand sha2ify-release" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand sha2ify-release" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand sha2ify-release" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -f -a "show" -d 'Show what is on record: VM, disks, stemcells, releases, calls that are open'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -f -a "verify" -d 'Ask CPI and agent whether what is on record exists'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -f -a "import" -d 'Make a state file from CIDs, for an environment whose state is lost'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -f -a "backup" -d 'List the kept versions of a state file, keep one, go back to one'
complete -c monopile -n "__fish_monopile_using_subcommand state; and not __fish_seen_subcommand_from show verify import backup forget" -f -a "forget" -d 'Drop a record on purpose: nothing will look after what it describes'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l agent-timeout -d 'How long the agent on the VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l templates -d 'What renders job templates' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l cpi-timeout -d 'Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l vm -d 'The VM' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l disk -d 'The persistent disk, of the size that the manifest says' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l stemcell -d 'A stemcell; the first is the one the VM was made from, the next create-env deletes the others' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l stemcell-api-version -d 'The api_version of the stemcells' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l agent-timeout -d 'How long the agent on the VM may take to answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l templates -d 'What renders job templates' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l cpi-timeout -d 'Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l insecure-agent -d 'Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l restore -d 'Put this version in the place of the state, which is kept as a version itself' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l keep -d 'Keep the state as it is as a version'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l yes -d 'Don\'t ask: it is agreed'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from backup" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l state -d 'State file [default: PATH without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l wait-for-lock -d 'Wait so long for another run that holds the state, instead of failing at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l vm -d 'The VM' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l disk -d 'A disk' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l stemcell -d 'A stemcell' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l snapshot -d 'A snapshot' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l call -d 'An open call of an interrupted run' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l cpi -d 'Of this CPI, where several have the same CID' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l yes -d 'Don\'t ask: it is agreed'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand state; and __fish_seen_subcommand_from forget" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -f -a "info" -d 'Ask a CPI what it is'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -f -a "call" -d 'Call a method of a CPI, and show what is sent and what comes back'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -f -a "check" -d 'Put a CPI to the test: a whole life, what does not exist, the same again, several at once, nonsense'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and not __fish_seen_subcommand_from info call check replay" -f -a "replay" -d 'Be a CPI that answers from a transcript: a request on standard input, the recorded answer on standard output'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l cpi -d 'Use this CPI of the CPI config [default: that of the instance group\'s availability zone]' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l path -d 'Use this executable, without a manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l path-arg -d 'An argument of the executable; several times for several' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l context -d 'Properties for the context of its requests, as from a CPI config: JSON, or @FILE' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l replay -d 'Let this transcript answer in the place of a CPI' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l record -d 'Write down all that is asked and answered, without secrets' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l state -d 'State file, which is only read [default: MANIFEST without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l timeout -d 'How long one call may take before the CPI is killed' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l templates -d 'What renders the templates of a CPI release' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from info" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l stemcell-api-version -d '`api_version` of the stemcell that the call is about [default: that of the state]' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l cpi -d 'Use this CPI of the CPI config [default: that of the instance group\'s availability zone]' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l path -d 'Use this executable, without a manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l path-arg -d 'An argument of the executable; several times for several' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l context -d 'Properties for the context of its requests, as from a CPI config: JSON, or @FILE' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l replay -d 'Let this transcript answer in the place of a CPI' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l record -d 'Write down all that is asked and answered, without secrets' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l state -d 'State file, which is only read [default: MANIFEST without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l timeout -d 'How long one call may take before the CPI is killed' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l templates -d 'What renders the templates of a CPI release' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from call" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l stemcell -d 'The stemcell to make VMs from [default: the manifest\'s]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l cloud-properties -d '`cloud_properties` of VMs: JSON, or @FILE [default: the manifest\'s]' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l networks -d 'Networks of VMs, by name [default: the manifest\'s; one that is dynamic]' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l env -d 'Environment of VMs [default: the manifest\'s]' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l disk-size -d 'Size of disks in MiB [default: the manifest\'s; 1024]' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l disk-cloud-properties -d '`cloud_properties` of disks [default: the manifest\'s]' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l contract -d 'Only this contract' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l skip -d 'Leave this method out; several times for several' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l junit -d 'Write the result as a JUnit file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -s v -l var -d 'Set a variable; VALUE is YAML' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l var-file -d 'Set a variable to the text of a file' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -s l -l vars-file -d 'Load variables from a YAML file' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l vars-env -d 'Load variables from environment variables: MY takes `name` from MY_name' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l vars-store -d 'Load variables from a YAML file and save generated ones there' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -s o -l ops-file -d 'Apply operations from a YAML file to the manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l cpi-config -d 'CPIs to choose from, as the Director\'s CPI config [default: `cpis` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l cloud-config -d 'Availability zones, as in the Director\'s cloud config [default: `azs` of the manifest]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l cpi -d 'Use this CPI of the CPI config [default: that of the instance group\'s availability zone]' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l path -d 'Use this executable, without a manifest' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l path-arg -d 'An argument of the executable; several times for several' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l context -d 'Properties for the context of its requests, as from a CPI config: JSON, or @FILE' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l replay -d 'Let this transcript answer in the place of a CPI' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l record -d 'Write down all that is asked and answered, without secrets' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l state -d 'State file, which is only read [default: MANIFEST without its extension, and -state.json]' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l timeout -d 'How long one call may take before the CPI is killed' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l templates -d 'What renders the templates of a CPI release' -r -f -a "auto\t'The native renderer, and Ruby, if there is one, for a template it does not support'
native\t'The native renderer alone: Ruby is never started'
ruby\t'Ruby, which must be installed'"
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l cpi-api-version -d 'Speak no higher CPI API version than this, whatever the CPI says' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -l rewind -d 'Only forget how far it was played'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cpi; and __fish_seen_subcommand_from replay" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -f -a "list" -d 'Show what is in the cache'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and not __fish_seen_subcommand_from list prune" -f -a "prune" -d 'Remove what was not used for a while'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from list" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from list" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from list" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from list" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from list" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from list" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from list" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from list" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -l unused -d 'What counts as a while: 30d, 12h, 2w' -r
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -l all -d 'Remove everything'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand cache; and __fish_seen_subcommand_from prune" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-endpoint -l endpoint -d 'Ironic\'s URL; with Keystone it may be left to the catalogue' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-auth-type -d 'none, http_basic or password (Keystone) [default: what the other flags suggest]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-auth-url -d 'Keystone\'s URL' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-username -d 'User' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-password -d 'Password' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-user-domain-name -d 'The user\'s domain [default: Default]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-project-name -d 'The project to work in' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-project-domain-name -d 'The project\'s domain [default: Default]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-system-scope -d '"all" works on the whole system instead of in a project' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-region-name -d 'Which region\'s Ironic' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-interface -d 'public, internal or admin [default: public]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-cacert -d 'Authorities that vouch for the servers, in place of the operating system\'s' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l os-baremetal-api-version -d 'Version of Ironic\'s API [default: the newest that both sides know]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -f -a "node" -d 'Machines'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and not __fish_seen_subcommand_from node volume" -f -a "volume" -d 'Volumes that machines boot from and use'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-endpoint -l endpoint -d 'Ironic\'s URL; with Keystone it may be left to the catalogue' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-auth-type -d 'none, http_basic or password (Keystone) [default: what the other flags suggest]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-auth-url -d 'Keystone\'s URL' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-username -d 'User' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-password -d 'Password' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-user-domain-name -d 'The user\'s domain [default: Default]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-project-name -d 'The project to work in' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-project-domain-name -d 'The project\'s domain [default: Default]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-system-scope -d '"all" works on the whole system instead of in a project' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-region-name -d 'Which region\'s Ironic' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-interface -d 'public, internal or admin [default: public]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-cacert -d 'Authorities that vouch for the servers, in place of the operating system\'s' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l os-baremetal-api-version -d 'Version of Ironic\'s API [default: the newest that both sides know]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -f -a "list" -d 'List nodes'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -f -a "show" -d 'Show a node'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from node" -f -a "validate" -d 'Show whether a node is fit to be deployed, interface by interface'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-endpoint -l endpoint -d 'Ironic\'s URL; with Keystone it may be left to the catalogue' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-auth-type -d 'none, http_basic or password (Keystone) [default: what the other flags suggest]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-auth-url -d 'Keystone\'s URL' -r -f
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-username -d 'User' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-password -d 'Password' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-user-domain-name -d 'The user\'s domain [default: Default]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-project-name -d 'The project to work in' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-project-domain-name -d 'The project\'s domain [default: Default]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-system-scope -d '"all" works on the whole system instead of in a project' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-region-name -d 'Which region\'s Ironic' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-interface -d 'public, internal or admin [default: public]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-cacert -d 'Authorities that vouch for the servers, in place of the operating system\'s' -r -F
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l os-baremetal-api-version -d 'Version of Ironic\'s API [default: the newest that both sides know]' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -s h -l help -d 'Print help'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -f -a "connector" -d 'Who a node is to a storage network: its initiators'
complete -c monopile -n "__fish_monopile_using_subcommand baremetal; and __fish_seen_subcommand_from volume" -f -a "target" -d 'Volumes that a node boots from and uses'
complete -c monopile -n "__fish_monopile_using_subcommand completion" -l parallel -d 'How many downloads, uploads or compilations at once' -r
complete -c monopile -n "__fish_monopile_using_subcommand completion" -l cache-dir -d 'Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]' -r -f -a "(__fish_complete_directories)"
complete -c monopile -n "__fish_monopile_using_subcommand completion" -s n -l non-interactive -d 'Don\'t ask for input'
complete -c monopile -n "__fish_monopile_using_subcommand completion" -l json -d 'One JSON object per line instead of text'
complete -c monopile -n "__fish_monopile_using_subcommand completion" -l tty -d 'Show progress as on a terminal even if the output is none'
complete -c monopile -n "__fish_monopile_using_subcommand completion" -l no-color -d 'No colours'
complete -c monopile -n "__fish_monopile_using_subcommand completion" -l sha2 -d 'Use SHA-256 digests towards the agent'
complete -c monopile -n "__fish_monopile_using_subcommand completion" -l verbose -d 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
complete -c monopile -n "__fish_monopile_using_subcommand completion" -s h -l help -d 'Print help'
