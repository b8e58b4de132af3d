/**
 * Tests how the ec2 driver handles missing capacity, delays, stale lists and dropped connections,
 * and that none of its results contains a secret.
 */
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  accountSecrets,
  type Ec2Fixture,
  ec2Fixture,
  newTarget,
  region,
} from '../../../test/support/ec2/ec2-fixture.ts';
import { tagsFor } from '../../../test/support/ec2/query.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { handle } from '../conformance.ts';
import type { DriverOutcome, EnsureTarget } from '../driver.ts';
import { settle_seconds } from './ec2-host.ts';
import { instanceTags, tagNames } from './tags.ts';

const ours = 'installation-a';
let fixture: Ec2Fixture;
beforeEach(async () => {
  fixture = await ec2Fixture();
});
afterEach(() => fixture.close());

const launches = () => fixture.server.queries.filter(({ action }) => action === 'RunInstances');

/** Makes one call and stores the returned state in the target, as the operation does. */
async function step(
  target: EnsureTarget,
  call: 'ensure' | 'destroy' = 'ensure',
  driver = fixture.open(),
): Promise<DriverOutcome> {
  const answer = await driver[call](target);
  if (answer.outcome !== 'failed' && answer.state) target.state = answer.state;
  return answer;
}

it('tags the machine, its volumes and its interfaces in the launch request, and requires metadata version 2', async () => {
  const { target, done } = handle(fixture, newTarget(ours, { tags: { team: 'blue' }, root_volume_gb: 20 }));
  await done('ensure');
  const [launched, ...more] = launches();
  expect(more).toEqual([]);
  if (!launched) return expect.fail('nothing was launched');
  for (const kind of ['instance', 'volume', 'network-interface'])
    expect(tagsFor(launched.fields, kind)).toMatchObject({
      ...instanceTags(target),
      [tagNames.node_id]: target.node_id,
      team: 'blue',
    });
  expect(launched.region).toBe(region);
  expect(launched.fields.get('MetadataOptions.HttpTokens')).toBe('required');
  expect(launched.fields.get('BlockDeviceMapping.1.DeviceName')).toBe('/dev/xvda');
  expect(launched.fields.get('BlockDeviceMapping.1.Ebs.DeleteOnTermination')).toBe('true');
  expect(launched.fields.get('ClientToken')?.length).toBeLessThanOrEqual(64);
});

it('retries for hours with growing pauses if EC2 has no capacity, and then launches one machine', async () => {
  const clock = virtualClock();
  const driver = fixture.open({ clock });
  const target = newTarget(ours);
  fixture.server.plant('RunInstances', { refuse: 'InsufficientInstanceCapacity', status: 500 });
  const until_ms = clock.nowMs() + 2 * 3600 * 1000;
  const pauses: number[] = [];
  while (clock.nowMs() < until_ms) {
    const answer = await step(target, 'ensure', driver);
    if (answer.outcome !== 'wait') return expect.fail(answer.message);
    // Every answer after the first refusal must wait for capacity. Otherwise the boot budget would
    // start to run between retries.
    if (launches().length > 0) expect(answer).toMatchObject({ waits_for: 'capacity' });
    if (answer.retry_seconds > 0) pauses.push(answer.retry_seconds);
    await clock.advance(answer.retry_seconds * 1000);
  }
  expect(pauses.slice(0, 5)).toEqual([15, 30, 60, 120, 120]);
  expect(launches().length).toBe(pauses.length);
  fixture.server.heal();
  for (let answer = await step(target, 'ensure', driver); answer.outcome !== 'done'; ) {
    if (answer.outcome === 'failed') return expect.fail(answer.message);
    await clock.advance(answer.retry_seconds * 1000);
    answer = await step(target, 'ensure', driver);
  }
  expect(fixture.instancesOf(target)).toHaveLength(1);
  for (const name of ['put_off_for', 'put_off_times', 'no_room']) expect(target.state).not.toHaveProperty(name);
});

it('launches one machine if the reply to the launch was lost and EC2 lists the machine late', async () => {
  const target = newTarget(ours);
  fixture.server.plant('RunInstances', { cut: 'after' }, 1);
  fixture.server.plant('DescribeInstances', 'unlisted');
  await step(target);
  expect(await step(target)).toMatchObject({ outcome: 'wait', message: expect.stringContaining('is unavailable') });
  // Another replica derives the same client token, which leads to the same launch.
  expect(await step(target)).toMatchObject({ outcome: 'wait', phase: 'boot' });
  expect(await step(target)).toMatchObject({ outcome: 'wait', message: expect.stringContaining('not listed yet') });
  expect(fixture.instancesOf(target)).toHaveLength(1);
  fixture.server.heal();
  await handle(fixture, target).done('ensure');
  expect(fixture.instancesOf(target)).toHaveLength(1);
});

it('does not report a machine as absent shortly after its launch, and terminates it once it is listed', async () => {
  const clock = virtualClock();
  const driver = fixture.open({ clock });
  const target = newTarget(ours);
  fixture.server.plant('RunInstances', { cut: 'after' }, 1);
  fixture.server.plant('DescribeInstances', 'unlisted');
  await step(target, 'ensure', driver);
  await step(target, 'ensure', driver);
  const proofRequest = { kind: 'absent', nonce: 'fresh' } as const;
  expect(await step(target, 'destroy', driver)).toMatchObject({ outcome: 'wait' });
  expect(await driver.prove(target, proofRequest)).toMatchObject({ outcome: 'wait' });
  expect(await driver.inspect(target)).toMatchObject({ present: true, unseen: true });
  fixture.server.heal();
  await handle(fixture, target).done('destroy');
  expect(await driver.prove(target, proofRequest)).toMatchObject({ outcome: 'done' });
  expect(fixture.instancesOf(target).map(({ state }) => state)).toEqual(['terminated']);
  // A machine that is not listed after the settle time counts as absent.
  const neverListed = newTarget(ours);
  neverListed.state = { region, asked_at_ms: clock.nowMs() };
  expect(await driver.prove(neverListed, proofRequest)).toMatchObject({ outcome: 'wait' });
  await clock.advance(settle_seconds * 1000);
  expect(await driver.prove(neverListed, proofRequest)).toMatchObject({ outcome: 'done' });
});

it("reports EC2's reason for a machine that was terminated at launch", async () => {
  fixture.server.account.doom('Client.VolumeLimitExceeded: Volume limit exceeded');
  const { target, ended } = handle(fixture, newTarget(ours));
  const failure = { outcome: 'failed', owner_layer: 'provider', code: 'instance_terminated', retryable: false };
  const message = expect.stringContaining('Client.VolumeLimitExceeded: Volume limit exceeded');
  expect(await ended('ensure')).toMatchObject({ ...failure, message });
  expect(await fixture.open().diagnose(target)).toMatchObject({ certain: true, summary: message });
});

it('launches nothing if the server is unreachable, the user-data is too large or the image is missing', async () => {
  const unreachable = newTarget(ours);
  unreachable.bootstrap.server_url = 'http://127.0.0.1:7070';
  const remoteDriver = fixture.open({ endpoint: fixture.server.endpoint.replace('127.0.0.1', '0.0.0.0') });
  expect(await step(unreachable, 'ensure', remoteDriver)).toMatchObject({
    outcome: 'failed',
    owner_layer: 'control_plane',
    code: 'server_unreachable',
  });
  const large = newTarget(ours, { prepare: 'x'.repeat(16_000) });
  expect(await step(large)).toMatchObject({ outcome: 'failed', code: 'user_data_too_large', owner_layer: 'request' });
  const missing = handle(fixture, newTarget(ours, { image_id: 'ami-00000000' }));
  expect(await missing.ended('ensure')).toMatchObject({ outcome: 'failed', code: 'image_missing' });
  expect(fixture.server.account.instances.size).toBe(0);
});

it('does not touch a machine whose tags were removed, and does not report it as absent', async () => {
  const { target, done, ended } = handle(fixture, newTarget(ours));
  await done('ensure');
  const [instance] = fixture.instancesOf(target);
  if (!instance) return expect.fail('no machine');
  instance.tags = {};
  expect(await ended('destroy')).toMatchObject({ outcome: 'failed', code: 'tags_removed', retryable: true });
  expect(await fixture.open().prove(target, { kind: 'absent', nonce: 'fresh' })).toMatchObject({ code: 'not_absent' });
  expect(instance.state).toBe('running');
});

it('terminates a spot machine, which cannot be stopped', async () => {
  const { target, done } = handle(fixture, newTarget(ours, { spot: true }));
  await done('ensure');
  await done('stop');
  expect(await fixture.machines(target)).toBe(0);
});

it('reads all pages of a list', async () => {
  const targets = [newTarget(ours), newTarget(ours), newTarget(ours)];
  for (const target of targets) await handle(fixture, target).done('ensure');
  fixture.server.pageSize(1);
  expect(await fixture.open().list_owned(ours)).toHaveLength(3);
});

it("diagnoses a failed boot from the machine's console and redacts secrets in it", async () => {
  const { target, done } = handle(fixture, newTarget(ours, { env: { DB_PASSWORD: 'hunter2-of-the-workload' } }));
  await done('ensure');
  fixture.server.account.showConsole(
    `[  12.1] booting\nslipway: boot failed: node_too_old: the agent needs Node.js 20\nconnecting with hunter2-of-the-workload\n`,
  );
  const diagnosis = await fixture.open().diagnose(target);
  expect(diagnosis).toMatchObject({ code: 'node_too_old', certain: true });
  expect(diagnosis.summary).toContain('the agent needs Node.js 20');
  expect(JSON.stringify(diagnosis)).not.toContain('hunter2-of-the-workload');
});

it.each(['RunInstances', 'DescribeInstances'])('redacts secrets that an error of %s contains', async (action) => {
  const target = newTarget(ours);
  const planted = {
    ...accountSecrets,
    token: target.bootstrap.enrollment_token,
    signature: 'f'.repeat(64),
    encoded: 'ZW5jb2RlZC1hdXRob3JpemF0aW9uLW1lc3NhZ2U',
    other_key: 'ASIAABCDEFGHIJKLMNOP',
  };
  const message = `You are not authorized. User ${planted.AWS_ACCESS_KEY_ID} ${planted.other_key} key ${planted.AWS_SECRET_ACCESS_KEY} session ${planted.AWS_SESSION_TOKEN} Signature=${planted.signature} ${planted.token} Encoded authorization failure message: ${planted.encoded}`;
  const answers: unknown[] = [];
  for (const refuse of ['UnauthorizedOperation', 'RequestLimitExceeded', 'InternalError']) {
    fixture.server.plant(action, { refuse, message, status: 403 });
    const driver = fixture.open();
    answers.push(await step(target), await step(target));
    answers.push(await step(target, 'destroy'), await driver.inspect(target), await driver.diagnose(target));
    answers.push(await driver.prove(target, { kind: 'absent', nonce: 'fresh' }));
    answers.push(await driver.list_owned(ours).catch((error: Error) => error.message));
  }
  const text = JSON.stringify(answers);
  expect(text).toContain('You are not authorized');
  for (const [name, secret] of Object.entries(planted)) expect(text, name).not.toContain(secret);
});

it('waits if a proxy answers 502 instead of EC2', async () => {
  fixture.server.plant('DescribeInstances', { body: '<html>bad gateway</html>', status: 502 });
  expect(await step(newTarget(ours))).toMatchObject({ outcome: 'wait', retry_seconds: 5 });
});

it('still waits for an unanswered launch after a list call was throttled', async () => {
  const driver = fixture.open();
  const target = newTarget(ours);
  await step(target, 'ensure', driver);
  fixture.server.plant('RunInstances', { cut: 'after' }, 1);
  await step(target, 'ensure', driver);
  expect(fixture.instancesOf(target)).toHaveLength(1);
  fixture.server.plant('DescribeInstances', { refuse: 'RequestLimitExceeded', status: 503 }, 1);
  expect(await step(target, 'destroy', driver)).toMatchObject({ outcome: 'wait', put_off: true });
  fixture.server.heal();
  fixture.server.plant('*', 'unlisted');
  expect(await step(target, 'destroy', driver), 'a machine that EC2 may list later is not absent').toMatchObject({
    outcome: 'wait',
  });
  fixture.server.heal();
  for (let answer = await step(target, 'destroy', driver); answer.outcome !== 'done'; )
    answer = await step(target, 'destroy', driver);
  expect(fixture.instancesOf(target).map(({ state }) => state)).toEqual(['terminated']);
});
