// A transform of `asc`: gives the exports the names of the contract, which AssemblyScript cannot spell.

const CONTRACT = "{{contract}}";
const NAMES = {
  describe: `${CONTRACT}#describe`,
  handle: `${CONTRACT}#handle`,
  save: `${CONTRACT}#save`,
  load_: `${CONTRACT}#load`,
};
// One function frees the memory of every result.
const AFTER = ["describe", "handle", "save", "load"].map((name) => `cabi_post_${CONTRACT}#${name}`);

export function afterCompile(module) {
  for (const [name, full] of Object.entries(NAMES)) {
    module.addFunctionExport(`exports/${name}`, full);
    module.removeExport(name);
  }
  for (const full of AFTER) module.addFunctionExport("exports/cabi_post", full);
  for (const name of ["cabi_post", "abort"]) module.removeExport(name);
}
