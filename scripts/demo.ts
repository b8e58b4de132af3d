/**
 * `npm run demo`: a small fleet with planted faults. `-- --tls`: a server behind a TLS proxy with
 * its own certificate authority, to break by hand, layer by layer.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { startFailureMessage } from '../src/operations/runtime/server-start.ts';
import { startFleetDemo } from './demo/fleet-demo.ts';
import { type Fault, faultNames, startTlsDemo } from './demo/tls-demo.ts';

const usage = `Usage: npm run demo -- [--tls] [--port PORT] [--data-dir DIR]

  Without --tls: a server on port 7070 with a small fleet and planted faults (slow boots, one stuck in starting, releases
  that fail, a crash loop, one machine set aside), so that every page of the console has something true to show.

  With --tls: a server on port 7443 behind a proxy that ends TLS under an authority made on the spot, with one machine; lets
  you break each layer between them and see what doctor says from both ends.
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
/** Quits on a command or a signal. A closed standard input, as in the background, does not quit. */
const quit = new Promise<'quit'>((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve('quit'));
  lines.on('line', (line) => line.trim() === 'quit' && resolve('quit'));
});

async function breakLayers(): Promise<{ stop(): Promise<void> }> {
  say('Starting a server, a proxy and a machine …');
  const demo = await startTlsDemo({ data_dir, port: Number(values.port ?? 7443), say });
  const menu = `Type a layer to break: ${faultNames.join(' ')}; or mend, or quit.`;
  say(menu);
  let typed = Promise.resolve();
  const take = async (word: string) => {
    if (word === 'mend' || word === '') await demo.doctor(null);
    else if (isFault(word)) await demo.doctor(word);
    else say(`${word} is none of them.`);
    say(`\n${menu}`);
  };
  lines.on('line', (line) => {
    if (line.trim() !== 'quit') typed = typed.then(() => take(line.trim()));
  });
  await quit;
  await typed;
  return demo;
}

async function showFleet(): Promise<{ stop(): Promise<void> }> {
  say('Starting a server …');
  const demo = await startFleetDemo({ data_dir, port: Number(values.port ?? 7070), say });
  say('Type quit to end it; the machines and everything about them go with it.');
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
