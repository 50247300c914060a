# Written by packaging/recipes for a release.
class Monopile < Formula
  desc "@summary@"
  homepage "@repository@"
  version "@version@"
  license "@license@"

  on_macos do
    on_arm do
      url "@downloads@/@name@-@version@-aarch64-apple-darwin.tar.gz"
      sha256 "@aarch64-apple-darwin@"
    end
    on_intel do
      url "@downloads@/@name@-@version@-x86_64-apple-darwin.tar.gz"
      sha256 "@x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@downloads@/@name@-@version@-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "@downloads@/@name@-@version@-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "monopile"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/monopile.bash" => "monopile"
    zsh_completion.install "completions/_monopile"
    fish_completion.install "completions/monopile.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/monopile --version")
  end
end
