// The policy `secrets`: denies tools that read or write files in which secrets are usually kept,
// and leaves everything else to other policies and to people.
//
// Options (all optional): `names` replaces the list of file names, `also` adds to it. An entry is a
// name, or a name that begins or ends with `*`.

const NAMES = [
  ".env", ".env.*", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", "credentials",
  "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.pem", "*.p12", "*.pfx", "*.key", "*.kdbx",
];

let names = NAMES;

function list(options, field, otherwise) {
  const value = options[field];
  if (value === undefined) return otherwise;
  if (!Array.isArray(value) || value.some((name) => typeof name !== "string" || name === "")) {
    throw `\`${field}\` is not a list of names`;
  }
  return value;
}

function fits(name, pattern) {
  if (pattern.startsWith("*")) return name.endsWith(pattern.slice(1));
  if (pattern.endsWith("*")) return name.startsWith(pattern.slice(0, -1));
  return name === pattern;
}

/** Returns the file name in a text that is usually the name of a secret, or `undefined`. */
function secret(text) {
  const parts = text.toLowerCase().split("/");
  return parts.find((part) => names.some((pattern) => fits(part, pattern)));
}

export const policy = {
  describe: () =>
    JSON.stringify({
      name: "secrets",
      version: "0.1.0",
      description: "Denies tools that work on files in which secrets are usually kept",
    }),

  configure(text) {
    if (text.trim() === "") return;
    const options = JSON.parse(text);
    const unknown = Object.keys(options).find((key) => key !== "names" && key !== "also");
    if (unknown !== undefined) throw `\`${unknown}\` is unknown; there are \`names\` and \`also\``;
    names = [...list(options, "names", NAMES), ...list(options, "also", [])];
    names = names.map((name) => name.toLowerCase());
  },

  decide(request) {
    const files = request.paths.flatMap((path) => [path.path, path.resolved]);
    // Words of a command, without the quotes around them.
    const words = (request.command ?? "").split(/[\s'"=;|&<>()`$]+/);
    const found = [...files, ...words].map(secret).find((name) => name !== undefined);
    if (found === undefined) return { effect: "pass", reason: "" };
    return { effect: "deny", reason: `files named ${found} usually contain secrets` };
  },
};
