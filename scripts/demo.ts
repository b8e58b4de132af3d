/** `npm run demo -- --tls`: a server behind a proxy with an authority of its own, to break by hand, layer by layer. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { type Fault, faultNames, startTlsDemo } from './demo/tls-demo.ts';

const usage = `Usage: npm run demo -- --tls [--port 7443] [--data-dir DIR]

  Starts a server behind a proxy that ends TLS under an authority made on the spot, with one machine, and lets you break
  each layer between them and see what doctor says from both ends.
`;

const { values } = parseArgs({
  options: {
    tls: { type: 'boolean' },
    port: { type: 'string', default: '7443' },
    'data-dir': { type: 'string' },
    help: { type: 'boolean' },
  },
});
if (values.help || !values.tls) {
  process.stdout.write(usage);
  process.exit(values.help ? 0 : 2);
}

const say = (text: string) => process.stdout.write(`${text}\n`);
const isFault = (word: string): word is Fault => faultNames.some((name) => name === word);

const data_dir = values['data-dir'] ?? mkdtempSync(join(tmpdir(), 'slipway-demo-'));
say('Starting a server, a proxy and a machine …');
const demo = await startTlsDemo({ data_dir, port: Number(values.port), say });
const menu = `Type a layer to break: ${faultNames.join(' ')}; or mend, or quit.`;
say(menu);

for await (const line of createInterface({ input: process.stdin })) {
  const word = line.trim();
  if (word === 'quit') break;
  if (word === 'mend' || word === '') await demo.doctor(null);
  else if (isFault(word)) await demo.doctor(word);
  else say(`${word} is none of them.`);
  say(`\n${menu}`);
}
say('Stopping …');
await demo.stop();
if (!values['data-dir']) rmSync(data_dir, { recursive: true, force: true });
process.exit(0);
