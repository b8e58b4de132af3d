/**
 * The host on which the commands of the how-to pages run: a server with its embedded database and
 * one machine, and a directory that stands for the file system of the pages.
 */
import { execFileSync } from 'node:child_process';
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { signChecksums } from '../../packaging/build/signature.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { selfSigned } from '../../src/probe/testing/self-signed.ts';
import { findRunningDatabase } from '../../src/store/pg/embedded/embedded.ts';
import { emptyDatabase, type TestDatabase, testDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { registerStop } from '../support/run/left-running.ts';
import { type SpawnedProgram, spawnMain, spawnProgram, spawnServer, type TestServer } from '../support/server.ts';
import { killProcessesIn } from '../support/tagged-processes.ts';
import { until } from '../support/until.ts';
import type { CommandBlock } from './blocks.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface HowToHost {
  directory: string;
  /** The environment of the commands of a block. */
  environmentOf(block: CommandBlock): NodeJS.ProcessEnv;
  /** The command with every placeholder of the pages filled. */
  fill(command: string, block: CommandBlock): string;
  /** Readies what a block needs, and undoes it. */
  prepare(block: CommandBlock): Promise<() => Promise<void>>;
  stop(): Promise<void>;
}

const write = (path: string, content: string, mode = 0o600) => writeFileSync(path, content, { mode });

function makeCertificate(directory: string): void {
  const { key, cert } = selfSigned('localhost', '127.0.0.1');
  write(join(directory, 'key.pem'), key);
  for (const name of ['cert.pem', 'ca.pem']) write(join(directory, name), cert);
}

/** A downloaded release of one file, signed with a key of its own. */
function makeRelease(directory: string): void {
  const content = 'content';
  write(join(directory, 'slipway-0.1.0.tgz'), content);
  const checksum = createHash('sha256').update(content).digest('hex');
  write(join(directory, 'SHA256SUMS'), `${checksum}  slipway-0.1.0.tgz\n`);
  signChecksums(directory, generateKeyPairSync('ed25519').privateKey);
}

function makeFiles(directory: string): void {
  for (const folder of [
    'bin',
    'home/slipway',
    'etc/slipway',
    'etc/prometheus/rules',
    'var/lib',
    'var/backups/scheduled',
  ])
    mkdirSync(join(directory, folder), { recursive: true });
  // The default data directory, and the one that the pages name.
  symlinkSync('home/slipway', join(directory, '.slipway'));
  symlinkSync(join(root, 'examples'), join(directory, 'examples'));
  symlinkSync(join(root, 'packaging/monitoring'), join(directory, 'monitoring'));
  copyFileSync(join(root, 'slipway.yaml'), join(directory, 'slipway.yaml'));
  symlinkSync(join(root, 'bin/slipway'), join(directory, 'bin/slipway'));
  write(join(directory, 'password.txt'), 'a password of the fixture\n');
  write(join(directory, 'pools.yaml'), 'name: workers\nbudgets: { provision_seconds: 90 }\n');
  write(join(directory, 'etc/slipway/admin.token'), randomBytes(32).toString('hex'));
  makeCertificate(directory);
  makeRelease(directory);
}

const agentProgram = join(root, 'src/agent/main.ts');
const joinPool = 'metal';

/** A machine with a log, for the pages that read or judge one. */
async function makeMachine(client: Client): Promise<{ node_id: string; correlation_id: string }> {
  const spec = { command: ['sh', '-c', 'echo hello; exec sleep 3600'] };
  await client.call('pool-put', { params: { pool: 'workers' }, body: { driver: 'local', spec } });
  const { allocation } = await client.call('allocation-create', { body: { pool: 'workers' } });
  const params = { id: allocation.allocation_id };
  const findMachine = async () => {
    const { status, node_id } = await client.call('allocation-get', { params });
    return status === 'active' ? node_id : undefined;
  };
  const node_id = await until('a machine', findMachine, { seconds: 110 });
  const { items } = await client.call('node-timeline', { params: { id: node_id } });
  const correlation_id = items.find((fact) => fact.correlation_id)?.correlation_id;
  if (!correlation_id) throw new Error('no fact of the machine has a correlation id');
  return { node_id, correlation_id };
}

/** The settings of the run must not reach the commands. */
function ownEnvironment(directory: string): Record<string, string> {
  const inherited = Object.entries(process.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !/^(SLIPWAY|AWS|AZURE)_/.test(entry[0]),
  );
  const path = `${join(directory, 'bin')}:${process.env.PATH}`;
  // Port 0, because another server of this host may listen on the default port.
  const settings = { SLIPWAY_PORT: '0', SLIPWAY_DRAIN_SECONDS: '0' };
  return { ...Object.fromEntries(inherited), ...settings, PATH: path, HOME: join(directory, 'home') };
}

/** The commands of these pages use an embedded database; all others use one of the test run. */
const embeddedPages = ['back-up.md', 'install.md', 'sign-in.md'];

const unfilled = /…|<[a-z ]+>|\b[A-Z]*_?ID\b|\b(NODE|ACTION|TEXT|NEW|OLD)\b|db\d?\.example/;

/** A path outside the directory of the fixture, which no command may touch. */
const foreignPath = (directory: string) =>
  new RegExp(`(?:^|[\\s=<>])/(?!dev/stdin)(?!${directory.slice(1)}/)\\S*`, 'm');

export async function openHowToHost(): Promise<HowToHost> {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-how-to-'));
  // PostgreSQL runs as another user if the tests run as root.
  chmodSync(directory, 0o711);
  makeFiles(directory);
  const at = (...parts: string[]) => join(directory, ...parts);
  const dataDir = at('var/lib/slipway');
  mkdirSync(dataDir);
  const environment = ownEnvironment(directory);
  const start = (port: string) =>
    spawnMain(['--port', port, '--data-dir', dataDir, '--drain-seconds', '0'], { env: environment });
  let server = await start('0');
  const databases: TestDatabase[] = [];
  const lasting: SpawnedProgram[] = [];
  // Also stops them if the rest of this function fails.
  const stop = registerStop(async () => {
    for (const program of [...lasting, server]) await program.end('SIGTERM');
    killProcessesIn(directory);
    for (const each of databases) await each.drop();
    rmSync(directory, { recursive: true, force: true });
  });
  const adminToken = readFileSync(at('var/lib/slipway/admin.token'), 'utf8').trim();
  const client = createClient({ base_url: server.url, token: adminToken, addresses: routes });
  await client.call('pool-put', { params: { pool: joinPool }, body: { driver: 'external' } });
  // Not the admin token of the installation, because a page resets that.
  const { token = '' } = await client.call('token-create', { body: { name: 'docs-reader', role: 'admin' } });
  const spare = await client.call('token-create', { body: { name: 'spare', role: 'viewer' } });
  const join_token = (await client.call('join-token-create', { params: { pool: joinPool }, body: {} })).token ?? '';
  await client.call('session-create', { body: { token } });
  const session_id = (await client.call('session-list', {})).items[0]?.session_id ?? '';
  const machine = await makeMachine(client);
  copyFileSync(at('var/lib/slipway/keys.json'), at('keys.json'));
  write(at('my.token'), token);
  write(at('join.token'), join_token);
  write(at('agent.json'), JSON.stringify({ server_url: server.url, join_token, name: 'doctor', dir: at('agent') }));
  // The doctor of an agent examines one that has registered and still sends heartbeats.
  const agent = spawnProgram(['--config', at('agent.json')], { env: environment, program: agentProgram });
  await until('the agent to register', () => agent.output().includes('"registered"'));
  lasting.push(agent);
  const publicKey = execFileSync(at('bin/slipway'), ['keys', 'public', '--data-dir', dataDir], { env: environment });
  writeFileSync(at('slipway.pem'), publicKey);

  const database = await testDatabase();
  const targets: TestDatabase[] = [await emptyDatabase(), await emptyDatabase()];
  databases.push(database, ...targets);
  const embeddedUrl = (await findRunningDatabase(dataDir)) ?? '';
  const relayPort = String(await freePort());
  let restored: TestServer | undefined;

  const backups = at('var/backups/slipway');
  const newestBackup = () => join(backups, readdirSync(backups).toSorted().at(-1) ?? 'no backup');

  function fill(command: string, { page, commands }: CommandBlock): string {
    const ownUrl = page === 'back-up.md' ? embeddedUrl : database.url;
    const moves = commands.some((each) => each.includes('move-database'));
    // Each replacement sees the text that the ones before it left.
    const replacements: [RegExp, string | (() => string)][] = [
      [/^sudo /, ''],
      // The server of the fixture runs on its data directory.
      [/\/var\/lib\/slipway(?= |$)/g, moves ? '/var/lib/slipway-restored' : '$&'],
      [/\/var\/lib\/slipway(?= |$)/g, page === 'replicas.md' ? '/var/lib/replica' : '$&'],
      [/(?<=--backup-to )\S+/, '/var/backups/scheduled/'],
      [/\S*slipway-…\.slipway-backup/g, newestBackup],
      [/(^|[\s=<>])\/(?=(var|etc)\/)/gm, `$1${directory}/`],
      [/postgres:\/\/\S*:…@db\.example\/slipway_restored/g, targets[0]?.url ?? ''],
      [/postgres:\/\/owner:…@db\.example\/slipway/g, targets[1]?.url ?? ''],
      [
        /postgres:\/\/slipway_app:…@db1\.example:5432,db2\.example:5432\/slipway/g,
        'postgres://slipway_app@db1,db2/slipway',
      ],
      [/postgres:\/\/slipway_app:…@db\.example\/slipway/g, database.application_url],
      [/postgres:\/\/(slipway:…@db\.example\/slipway|…)/g, ownUrl],
      [/(?<=--server |SLIPWAY_AGENT_SERVER=|doctor )https:\/\/slipway\.example(\.com)?/g, server.url],
      [/\b7071\b/g, relayPort],
      [/node_…|\b(NODE|ID)\b/g, machine.node_id],
      [/\bCORRELATION_ID\b/g, machine.correlation_id],
      [/\bACTION\b/g, 'quarantine'],
      [/\bTEXT\b/g, 'hello'],
      [/sess_…/g, session_id],
      [/tok_…/g, spare.token_id],
      [/swj_…/g, join_token],
      [/"…"/g, '"a reason"'],
    ];
    let line = command;
    for (const [from, to] of replacements)
      line = typeof to === 'string' ? line.replace(from, to) : line.replace(from, to);
    const code = line.replace(/ +# .*$/gm, '');
    if (unfilled.test(code)) throw new Error(`fixture.ts fills no such placeholder: ${code}`);
    const path = foreignPath(directory).exec(code);
    if (path) throw new Error(`this command would touch ${path[0].trim()} of the host of the test: ${code}`);
    return line;
  }

  return {
    directory,
    fill,
    environmentOf({ page, line }) {
      const called = restored ?? { url: server.url, token };
      return {
        ...environment,
        SLIPWAY_SERVER: called.url,
        SLIPWAY_TOKEN: called.token,
        // An agent keeps its identity in its directory, and each name belongs to one machine.
        SLIPWAY_AGENT_DIR: at(`agent-${page}-${line}`),
        SLIPWAY_AGENT_NAME: `agent-${line}`,
        ...(page === 'sign-in.md' && { SLIPWAY_DATA_DIR: dataDir }),
        ...(!embeddedPages.includes(page) && {
          SLIPWAY_DATABASE_URL: database.application_url,
          SLIPWAY_OWNER_DATABASE_URL: database.url,
          SLIPWAY_DATA_DIR: at('server'),
        }),
      };
    },
    async prepare({ commands }) {
      // A server refuses to start on a copy of a data directory whose server runs.
      if (commands.some((command) => command.startsWith('slipway serve --data-dir /var/lib/slipway-restored'))) {
        await server.end('SIGTERM');
        return async () => {
          server = await start(new URL(server.url).port);
        };
      }
      if (!commands.some((command) => command.startsWith('slipway restoration'))) return async () => {};
      const observing = await spawnServer({ args: ['--restored'] });
      restored = observing;
      await until('every machine to be compared', async () => {
        const { newest } = await observing.client.call('restoration-get', {});
        return newest !== null && !newest.comparing && newest.inspected_at !== null;
      });
      return async () => {
        restored = undefined;
        await observing.stop();
      };
    },
    stop,
  };
}
