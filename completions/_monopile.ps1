
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'monopile' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'monopile'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'monopile' {
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show the version')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Show the version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Show the version')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('create-env', 'create-env', [CompletionResultType]::ParameterValue, 'Create or update an environment')
            [CompletionResult]::new('delete-env', 'delete-env', [CompletionResultType]::ParameterValue, 'Delete an environment: its VM, disks, stemcells and state')
            [CompletionResult]::new('stop-env', 'stop-env', [CompletionResultType]::ParameterValue, 'Stop the jobs of an environment; VM and disks stay')
            [CompletionResult]::new('start-env', 'start-env', [CompletionResultType]::ParameterValue, 'Start the jobs that stop-env stopped')
            [CompletionResult]::new('interpolate', 'interpolate', [CompletionResultType]::ParameterValue, 'Print a manifest with ops files applied and variables filled in')
            [CompletionResult]::new('int', 'int', [CompletionResultType]::ParameterValue, 'Print a manifest with ops files applied and variables filled in')
            [CompletionResult]::new('vars', 'vars', [CompletionResultType]::ParameterValue, 'Look into a vars store, check it, renew what is in it')
            [CompletionResult]::new('completion', 'completion', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            break
        }
        'monopile;create-env' {
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var', '--var', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var-file', '--var-file', [CompletionResultType]::ParameterName, 'Set a variable to the text of a file')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-file', '--vars-file', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-env', '--vars-env', [CompletionResultType]::ParameterName, 'Load variables from environment variables: MY takes `name` from MY_name')
            [CompletionResult]::new('--vars-store', '--vars-store', [CompletionResultType]::ParameterName, 'Load variables from a YAML file and save generated ones there')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--ops-file', '--ops-file', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'State file [default: PATH without its extension, and -state.json]')
            [CompletionResult]::new('--drain-timeout', '--drain-timeout', [CompletionResultType]::ParameterName, 'Stop jobs that still drain after this time')
            [CompletionResult]::new('--agent-timeout', '--agent-timeout', [CompletionResultType]::ParameterName, 'How long the agent on the new VM may take to answer')
            [CompletionResult]::new('--package-dir', '--package-dir', [CompletionResultType]::ParameterName, 'Where the CPI''s packages are installed, instead of the cache')
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('--recreate', '--recreate', [CompletionResultType]::ParameterName, 'Deploy even if nothing changed, with a new VM')
            [CompletionResult]::new('--recreate-persistent-disks', '--recreate-persistent-disks', [CompletionResultType]::ParameterName, 'Move the data of persistent disks to new ones')
            [CompletionResult]::new('--skip-drain', '--skip-drain', [CompletionResultType]::ParameterName, 'Don''t run drain and pre-stop scripts')
            [CompletionResult]::new('--forget-open-calls', '--forget-open-calls', [CompletionResultType]::ParameterName, 'Drop calls of an interrupted run whose outcome cannot be known')
            [CompletionResult]::new('--keep-workdir', '--keep-workdir', [CompletionResultType]::ParameterName, 'Keep the scratch directory of this run, for a look at what went wrong; it holds credentials')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'monopile;delete-env' {
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var', '--var', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var-file', '--var-file', [CompletionResultType]::ParameterName, 'Set a variable to the text of a file')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-file', '--vars-file', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-env', '--vars-env', [CompletionResultType]::ParameterName, 'Load variables from environment variables: MY takes `name` from MY_name')
            [CompletionResult]::new('--vars-store', '--vars-store', [CompletionResultType]::ParameterName, 'Load variables from a YAML file and save generated ones there')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--ops-file', '--ops-file', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'State file [default: PATH without its extension, and -state.json]')
            [CompletionResult]::new('--drain-timeout', '--drain-timeout', [CompletionResultType]::ParameterName, 'Stop jobs that still drain after this time')
            [CompletionResult]::new('--package-dir', '--package-dir', [CompletionResultType]::ParameterName, 'Where the CPI''s packages are installed, instead of the cache')
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('--skip-drain', '--skip-drain', [CompletionResultType]::ParameterName, 'Don''t run drain and pre-stop scripts')
            [CompletionResult]::new('--forget-open-calls', '--forget-open-calls', [CompletionResultType]::ParameterName, 'Drop calls of an interrupted run whose outcome cannot be known')
            [CompletionResult]::new('--keep-workdir', '--keep-workdir', [CompletionResultType]::ParameterName, 'Keep the scratch directory of this run, for a look at what went wrong; it holds credentials')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'monopile;stop-env' {
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var', '--var', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var-file', '--var-file', [CompletionResultType]::ParameterName, 'Set a variable to the text of a file')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-file', '--vars-file', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-env', '--vars-env', [CompletionResultType]::ParameterName, 'Load variables from environment variables: MY takes `name` from MY_name')
            [CompletionResult]::new('--vars-store', '--vars-store', [CompletionResultType]::ParameterName, 'Load variables from a YAML file and save generated ones there')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--ops-file', '--ops-file', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'State file [default: PATH without its extension, and -state.json]')
            [CompletionResult]::new('--drain-timeout', '--drain-timeout', [CompletionResultType]::ParameterName, 'Stop jobs that still drain after this time')
            [CompletionResult]::new('--agent-timeout', '--agent-timeout', [CompletionResultType]::ParameterName, 'How long the agent on the VM may take to answer')
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('--skip-drain', '--skip-drain', [CompletionResultType]::ParameterName, 'Don''t run drain and pre-stop scripts')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'monopile;start-env' {
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var', '--var', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var-file', '--var-file', [CompletionResultType]::ParameterName, 'Set a variable to the text of a file')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-file', '--vars-file', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-env', '--vars-env', [CompletionResultType]::ParameterName, 'Load variables from environment variables: MY takes `name` from MY_name')
            [CompletionResult]::new('--vars-store', '--vars-store', [CompletionResultType]::ParameterName, 'Load variables from a YAML file and save generated ones there')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--ops-file', '--ops-file', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'State file [default: PATH without its extension, and -state.json]')
            [CompletionResult]::new('--agent-timeout', '--agent-timeout', [CompletionResultType]::ParameterName, 'How long the agent on the VM may take to answer')
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'monopile;interpolate' {
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var', '--var', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var-file', '--var-file', [CompletionResultType]::ParameterName, 'Set a variable to the text of a file')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-file', '--vars-file', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-env', '--vars-env', [CompletionResultType]::ParameterName, 'Load variables from environment variables: MY takes `name` from MY_name')
            [CompletionResult]::new('--vars-store', '--vars-store', [CompletionResultType]::ParameterName, 'Load variables from a YAML file and save generated ones there')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--ops-file', '--ops-file', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--path', '--path', [CompletionResultType]::ParameterName, 'Print the value at this path alone, such as /instance_groups/name=bosh/jobs/0')
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('--var-errs', '--var-errs', [CompletionResultType]::ParameterName, 'Fail if a variable has no value')
            [CompletionResult]::new('--var-errs-unused', '--var-errs-unused', [CompletionResultType]::ParameterName, 'Fail if a given variable is not used')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'monopile;int' {
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var', '--var', [CompletionResultType]::ParameterName, 'Set a variable; VALUE is YAML')
            [CompletionResult]::new('--var-file', '--var-file', [CompletionResultType]::ParameterName, 'Set a variable to the text of a file')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-file', '--vars-file', [CompletionResultType]::ParameterName, 'Load variables from a YAML file')
            [CompletionResult]::new('--vars-env', '--vars-env', [CompletionResultType]::ParameterName, 'Load variables from environment variables: MY takes `name` from MY_name')
            [CompletionResult]::new('--vars-store', '--vars-store', [CompletionResultType]::ParameterName, 'Load variables from a YAML file and save generated ones there')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--ops-file', '--ops-file', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifest')
            [CompletionResult]::new('--path', '--path', [CompletionResultType]::ParameterName, 'Print the value at this path alone, such as /instance_groups/name=bosh/jobs/0')
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('--var-errs', '--var-errs', [CompletionResultType]::ParameterName, 'Fail if a variable has no value')
            [CompletionResult]::new('--var-errs-unused', '--var-errs-unused', [CompletionResultType]::ParameterName, 'Fail if a given variable is not used')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'monopile;vars' {
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show what is in a vars store, without the secrets')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check certificates, keys and, with -l, that values are what manifests declare')
            [CompletionResult]::new('rotate', 'rotate', [CompletionResultType]::ParameterValue, 'Make a new value; for a CA also for everything that it signed')
            break
        }
        'monopile;vars;list' {
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'monopile;vars;check' {
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Manifest whose `variables:` say what values are to be')
            [CompletionResult]::new('--manifest', '--manifest', [CompletionResultType]::ParameterName, 'Manifest whose `variables:` say what values are to be')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifests')
            [CompletionResult]::new('--ops-file', '--ops-file', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifests')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Set a variable that options refer to; VALUE is YAML')
            [CompletionResult]::new('--var', '--var', [CompletionResultType]::ParameterName, 'Set a variable that options refer to; VALUE is YAML')
            [CompletionResult]::new('--vars-file', '--vars-file', [CompletionResultType]::ParameterName, 'Load variables that options refer to from a YAML file')
            [CompletionResult]::new('--within', '--within', [CompletionResultType]::ParameterName, 'How long certificates must still be valid: 30d, 12h, 2w')
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'monopile;vars;rotate' {
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Manifest whose `variables:` say what values are to be')
            [CompletionResult]::new('--manifest', '--manifest', [CompletionResultType]::ParameterName, 'Manifest whose `variables:` say what values are to be')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifests')
            [CompletionResult]::new('--ops-file', '--ops-file', [CompletionResultType]::ParameterName, 'Apply operations from a YAML file to the manifests')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Set a variable that options refer to; VALUE is YAML')
            [CompletionResult]::new('--var', '--var', [CompletionResultType]::ParameterName, 'Set a variable that options refer to; VALUE is YAML')
            [CompletionResult]::new('--vars-file', '--vars-file', [CompletionResultType]::ParameterName, 'Load variables that options refer to from a YAML file')
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('--finish', '--finish', [CompletionResultType]::ParameterName, 'Second step of a CA''s rotation: drop the old certificate')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'monopile;completion' {
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'How many downloads, uploads or compilations at once')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--non-interactive', '--non-interactive', [CompletionResultType]::ParameterName, 'Don''t ask for input')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line instead of text')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Show progress as on a terminal even if the output is none')
            [CompletionResult]::new('--no-color', '--no-color', [CompletionResultType]::ParameterName, 'No colours')
            [CompletionResult]::new('--sha2', '--sha2', [CompletionResultType]::ParameterName, 'Use SHA-256 digests towards the agent')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
