/**
 * One life of a machine on moto, which shares nothing with the server that the tests use: up, seen, listed, diagnosed, stopped, destroyed
 * and proven gone. By hand, since moto's packages are large and it knows no client tokens:
 *
 *   pip install 'moto[ec2,server]==5.2.5' && moto_server -p 5555
 *   node test/support/ec2/on-moto.ts http://127.0.0.1:5555
 */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { DriverOutcome } from '../../../src/drivers/driver.ts';
import { createEc2Driver } from '../../../src/drivers/ec2/ec2-driver.ts';
import { accountSecrets, newTarget, region } from './ec2-world.ts';

const [endpoint] = process.argv.slice(2);
if (!endpoint) throw new Error('usage: node test/support/ec2/on-moto.ts http://127.0.0.1:5555');
Object.assign(process.env, accountSecrets);

const installation_id = 'on-moto';
const make = () =>
  createEc2Driver({
    endpoint,
    clock: systemClock,
    regionsInUse: async () => [region],
    bundleDigest: async () => 'a'.repeat(64),
    poll_seconds: 0.2,
  });
// An image that moto knows; the machine never runs, so nobody phones home.
const target = newTarget(installation_id, { image_id: 'ami-12c6146b' });

async function done(call: 'ensure' | 'stop' | 'clean' | 'destroy'): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    // A driver that remembers nothing, as after a crash.
    const answer: DriverOutcome = await make()[call](target);
    console.log(`${call}: ${answer.outcome}: ${answer.message}`);
    if (answer.outcome === 'failed') throw new Error(`${call} failed: ${answer.code}`);
    if (answer.state) target.state = answer.state;
    if (answer.outcome === 'done') return;
    await pause(systemClock, answer.retry_seconds * 1000);
  }
  throw new Error(`${call} does not end`);
}

function must(what: string, holds: boolean): void {
  console.log(`${holds ? 'ok' : 'NOT OK'}: ${what}`);
  if (!holds) process.exitCode = 1;
}

await done('ensure');
must('it is seen running', (await make().observe(target)).state === 'running');
const owned = await make().list_owned(installation_id);
must('it is listed once', owned.filter(({ kind }) => kind === 'instance').length === 1);
must('it is diagnosed', (await make().diagnose(target)).summary !== '');
must('no proof while it is there', (await make().prove(target, { kind: 'absent', nonce: 'n' })).outcome !== 'done');
await done('stop');
await done('clean');
await done('destroy');
const proven = await make().prove(target, { kind: 'absent', nonce: 'n' });
must('it is proven gone', proven.outcome === 'done');
must('nothing is listed any more', (await make().list_owned(installation_id)).length === 0);
