# Evaluates Ruby expressions for the differential test: reads them as a JSON array from standard input, and writes one
# line of JSON for each, with the text of `inspect` or the class of an exception.
#
# A worker process evaluates them. An expression that takes longer than SECONDS, needs more than MEMORY or has a
# longer text than LONGEST gets the error "too much", and a new worker continues with the next one.
require "base64"
require "cgi"
require "digest"
require "erb"
require "ipaddr"
require "json"
require "set"
require "shellwords"
require "time"
require "timeout"
require "uri"

SECONDS = 2
MEMORY = 2 << 30
LONGEST = 1 << 20

def evaluate(source)
  # rubocop:disable Security/Eval
  text = eval(source, Object.new.instance_eval { binding }, "template").inspect
  # rubocop:enable Security/Eval
  return { "error" => "too much" } if text.bytesize > LONGEST

  { "value" => text.encode("UTF-8").scrub }
rescue NoMemoryError
  { "error" => "too much" }
rescue SyntaxError, StandardError, SystemStackError => e
  { "error" => e.class.to_s }
end

sources = JSON.parse($stdin.read)
done = 0
while done < sources.size
  reader, writer = IO.pipe
  worker = fork do
    reader.close
    Process.setrlimit(Process::RLIMIT_AS, MEMORY)
    writer.sync = true
    sources.drop(done).each { |source| writer.puts(JSON.generate(evaluate(source))) }
    exit!
  end
  writer.close
  begin
    while (line = Timeout.timeout(SECONDS) { reader.gets })
      puts line
      done += 1
    end
  rescue Timeout::Error
    Process.kill(:KILL, worker)
  end
  reader.close
  Process.wait(worker)
  if done < sources.size
    puts JSON.generate("error" => "too much")
    done += 1
  end
end
