
use builtin;
use str;

set edit:completion:arg-completer[monopile] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'monopile'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'monopile'= {
            cand --parallel 'How many downloads, uploads or compilations at once'
            cand -v 'Show the version'
            cand -V 'Show the version'
            cand --version 'Show the version'
            cand -n 'Don''t ask for input'
            cand --non-interactive 'Don''t ask for input'
            cand --json 'One JSON object per line instead of text'
            cand --tty 'Show progress as on a terminal even if the output is none'
            cand --no-color 'No colours'
            cand --sha2 'Use SHA-256 digests towards the agent'
            cand --verbose 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
            cand -h 'Print help'
            cand --help 'Print help'
            cand create-env 'Create or update an environment'
            cand delete-env 'Delete an environment: its VM, disks, stemcells and state'
            cand interpolate 'Print a manifest with ops files applied and variables filled in'
            cand int 'Print a manifest with ops files applied and variables filled in'
            cand completion 'Print the completion script of a shell'
        }
        &'monopile;create-env'= {
            cand -v 'Set a variable; VALUE is YAML'
            cand --var 'Set a variable; VALUE is YAML'
            cand --var-file 'Set a variable to the text of a file'
            cand -l 'Load variables from a YAML file'
            cand --vars-file 'Load variables from a YAML file'
            cand --vars-env 'Load variables from environment variables: MY takes `name` from MY_name'
            cand --vars-store 'Load variables from a YAML file and save generated ones there'
            cand -o 'Apply operations from a YAML file to the manifest'
            cand --ops-file 'Apply operations from a YAML file to the manifest'
            cand --state 'State file [default: PATH without its extension, and -state.json]'
            cand --package-dir 'Where the CPI''s packages are installed, instead of the cache'
            cand --parallel 'How many downloads, uploads or compilations at once'
            cand --recreate 'Deploy even if nothing changed, with a new VM'
            cand --recreate-persistent-disks 'Move the data of persistent disks to new ones'
            cand --skip-drain 'Don''t run drain and pre-stop scripts'
            cand -n 'Don''t ask for input'
            cand --non-interactive 'Don''t ask for input'
            cand --json 'One JSON object per line instead of text'
            cand --tty 'Show progress as on a terminal even if the output is none'
            cand --no-color 'No colours'
            cand --sha2 'Use SHA-256 digests towards the agent'
            cand --verbose 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'monopile;delete-env'= {
            cand -v 'Set a variable; VALUE is YAML'
            cand --var 'Set a variable; VALUE is YAML'
            cand --var-file 'Set a variable to the text of a file'
            cand -l 'Load variables from a YAML file'
            cand --vars-file 'Load variables from a YAML file'
            cand --vars-env 'Load variables from environment variables: MY takes `name` from MY_name'
            cand --vars-store 'Load variables from a YAML file and save generated ones there'
            cand -o 'Apply operations from a YAML file to the manifest'
            cand --ops-file 'Apply operations from a YAML file to the manifest'
            cand --state 'State file [default: PATH without its extension, and -state.json]'
            cand --package-dir 'Where the CPI''s packages are installed, instead of the cache'
            cand --parallel 'How many downloads, uploads or compilations at once'
            cand --skip-drain 'Don''t run drain and pre-stop scripts'
            cand -n 'Don''t ask for input'
            cand --non-interactive 'Don''t ask for input'
            cand --json 'One JSON object per line instead of text'
            cand --tty 'Show progress as on a terminal even if the output is none'
            cand --no-color 'No colours'
            cand --sha2 'Use SHA-256 digests towards the agent'
            cand --verbose 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'monopile;interpolate'= {
            cand -v 'Set a variable; VALUE is YAML'
            cand --var 'Set a variable; VALUE is YAML'
            cand --var-file 'Set a variable to the text of a file'
            cand -l 'Load variables from a YAML file'
            cand --vars-file 'Load variables from a YAML file'
            cand --vars-env 'Load variables from environment variables: MY takes `name` from MY_name'
            cand --vars-store 'Load variables from a YAML file and save generated ones there'
            cand -o 'Apply operations from a YAML file to the manifest'
            cand --ops-file 'Apply operations from a YAML file to the manifest'
            cand --path 'Print the value at this path alone, such as /instance_groups/name=bosh/jobs/0'
            cand --parallel 'How many downloads, uploads or compilations at once'
            cand --var-errs 'Fail if a variable has no value'
            cand --var-errs-unused 'Fail if a given variable is not used'
            cand -n 'Don''t ask for input'
            cand --non-interactive 'Don''t ask for input'
            cand --json 'One JSON object per line instead of text'
            cand --tty 'Show progress as on a terminal even if the output is none'
            cand --no-color 'No colours'
            cand --sha2 'Use SHA-256 digests towards the agent'
            cand --verbose 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'monopile;int'= {
            cand -v 'Set a variable; VALUE is YAML'
            cand --var 'Set a variable; VALUE is YAML'
            cand --var-file 'Set a variable to the text of a file'
            cand -l 'Load variables from a YAML file'
            cand --vars-file 'Load variables from a YAML file'
            cand --vars-env 'Load variables from environment variables: MY takes `name` from MY_name'
            cand --vars-store 'Load variables from a YAML file and save generated ones there'
            cand -o 'Apply operations from a YAML file to the manifest'
            cand --ops-file 'Apply operations from a YAML file to the manifest'
            cand --path 'Print the value at this path alone, such as /instance_groups/name=bosh/jobs/0'
            cand --parallel 'How many downloads, uploads or compilations at once'
            cand --var-errs 'Fail if a variable has no value'
            cand --var-errs-unused 'Fail if a given variable is not used'
            cand -n 'Don''t ask for input'
            cand --non-interactive 'Don''t ask for input'
            cand --json 'One JSON object per line instead of text'
            cand --tty 'Show progress as on a terminal even if the output is none'
            cand --no-color 'No colours'
            cand --sha2 'Use SHA-256 digests towards the agent'
            cand --verbose 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'monopile;completion'= {
            cand --parallel 'How many downloads, uploads or compilations at once'
            cand -n 'Don''t ask for input'
            cand --non-interactive 'Don''t ask for input'
            cand --json 'One JSON object per line instead of text'
            cand --tty 'Show progress as on a terminal even if the output is none'
            cand --no-color 'No colours'
            cand --sha2 'Use SHA-256 digests towards the agent'
            cand --verbose 'Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything'
            cand -h 'Print help'
            cand --help 'Print help'
        }
    ]
    $completions[$command]
}
