# Written by packaging/recipes for a release.
{
  description = "@summary@";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      archives = {
        x86_64-linux = {
          target = "x86_64-unknown-linux-musl";
          sha256 = "@x86_64-unknown-linux-musl@";
        };
        aarch64-linux = {
          target = "aarch64-unknown-linux-musl";
          sha256 = "@aarch64-unknown-linux-musl@";
        };
        x86_64-darwin = {
          target = "x86_64-apple-darwin";
          sha256 = "@x86_64-apple-darwin@";
        };
        aarch64-darwin = {
          target = "aarch64-apple-darwin";
          sha256 = "@aarch64-apple-darwin@";
        };
      };
      package = system: archive:
        let pkgs = nixpkgs.legacyPackages.${system};
        in pkgs.stdenvNoCC.mkDerivation {
          pname = "@name@";
          version = "@version@";
          src = pkgs.fetchurl {
            url = "@downloads@/@name@-@version@-${archive.target}.tar.gz";
            inherit (archive) sha256;
          };
          nativeBuildInputs = [ pkgs.installShellFiles ];
          installPhase = ''
            runHook preInstall
            install -D -m 755 monopile $out/bin/monopile
            installManPage man/*.1
            installShellCompletion --bash --name monopile completions/monopile.bash
            installShellCompletion --zsh completions/_monopile
            installShellCompletion --fish completions/monopile.fish
            runHook postInstall
          '';
          meta = {
            description = "@summary@";
            homepage = "@repository@";
            license = pkgs.lib.licenses.asl20;
            mainProgram = "monopile";
            platforms = builtins.attrNames archives;
          };
        };
    in {
      packages = builtins.mapAttrs (system: archive: { default = package system archive; }) archives;
    };
}
