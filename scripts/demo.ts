/**
 * `npm run demo` starts a small fleet with planted faults. `-- --tls` starts a server behind a TLS
 * proxy with its own certificate authority instead; you break its layers one by one.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { startFailureMessage } from '../src/operations/runtime/start-failure.ts';
import { startFleetDemo } from './demo/fleet-demo.ts';
import { type Fault, faultNames, startTlsDemo } from './demo/tls-demo.ts';

const usage = `Usage: npm run demo -- [--tls] [--port PORT] [--data-dir DIR]

  Without --tls: starts a server on port 7070 with a small fleet and planted faults: slow boots, a machine stuck in
  starting, failed releases, a crash loop and a quarantined machine. Every page of the console then shows real data.

  With --tls: starts a server with one machine, behind a TLS proxy on port 7443 with its own certificate authority. You
  can break each layer between them and see what doctor reports on both ends.
`;

const { values } = parseArgs({
  options: {
    tls: { type: 'boolean' },
    port: { type: 'string' },
    'data-dir': { type: 'string' },
    help: { type: 'boolean' },
  },
});
if (values.help) {
  process.stdout.write(usage);
  process.exit(0);
}

const say = (text: string) => process.stdout.write(`${text}\n`);
const isFault = (word: string): word is Fault => faultNames.some((name) => name === word);
const data_dir = values['data-dir'] ?? mkdtempSync(join(tmpdir(), 'slipway-demo-'));
mkdirSync(data_dir, { recursive: true });
const lines = createInterface({ input: process.stdin });
/** Quits on the command `quit` or a signal, but not when standard input closes. */
const quit = new Promise<'quit'>((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve('quit'));
  lines.on('line', (line) => line.trim() === 'quit' && resolve('quit'));
});

async function breakLayers(): Promise<{ stop(): Promise<void> }> {
  say('Starting a server, a proxy and a machine …');
  const demo = await startTlsDemo({ data_dir, port: Number(values.port ?? 7443), say });
  const menu = `Type a layer to break: ${faultNames.join(' ')}; or repair, or quit.`;
  say(menu);
  let pendingCommands = Promise.resolve();
  const runCommand = async (word: string) => {
    if (word === 'repair' || word === '') await demo.doctor(null);
    else if (isFault(word)) await demo.doctor(word);
    else say(`Unknown layer: ${word}`);
    say(`\n${menu}`);
  };
  lines.on('line', (line) => {
    if (line.trim() !== 'quit') pendingCommands = pendingCommands.then(() => runCommand(line.trim()));
  });
  await quit;
  await pendingCommands;
  return demo;
}

async function showFleet(): Promise<{ stop(): Promise<void> }> {
  say('Starting a server …');
  const demo = await startFleetDemo({ data_dir, port: Number(values.port ?? 7070), say });
  say('Type quit to stop the demo and its machines.');
  await quit;
  return demo;
}

const demo = await (values.tls ? breakLayers() : showFleet()).catch((error) => {
  process.stderr.write(`demo: ${startFailureMessage(error)}\n`);
  process.exit(1);
});
say('Stopping …');
await demo.stop();
if (!values['data-dir']) rmSync(data_dir, { recursive: true, force: true });
process.exit(0);
