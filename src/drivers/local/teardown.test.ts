import { lstat, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { handle } from '../conformance.ts';
import { isAlive, type LocalFixture, localFixture, plant, signal, until } from './testing/local-fixture.ts';

let fixture: LocalFixture;
afterEach(() => fixture.close());

/** Reads the pid that a test script wrote to a file. */
async function pidIn(path: string): Promise<number> {
  await until(async () => (await readFile(path, 'utf8').catch(() => '')).endsWith('\n'), `a pid in ${path}`);
  return Number(await readFile(path, 'utf8'));
}

describe('stop', () => {
  it('lets the agent end its command cleanly', async () => {
    fixture = await localFixture();
    const target = fixture.withSpec({
      command: [
        '/bin/sh',
        '-c',
        'trap "echo bye >farewell; exit 0" TERM; echo $$ >command.pid; while :; do sleep 0.05; done',
      ],
    });
    const machine = handle(fixture, target);
    await machine.done('ensure');
    await pidIn(fixture.work(target, 'command.pid'));
    await machine.done('stop');
    expect(await readFile(fixture.work(target, 'farewell'), 'utf8')).toBe('bye\n');
    expect(await fixture.pids(target)).toEqual([]);
    expect(await fixture.open().inspect(target)).toMatchObject({ state: 'exited', present: true });
  });

  it('kills a command that ignores SIGTERM at the end of the grace period, not earlier', async () => {
    fixture = await localFixture({ stop_grace_seconds: 0.5 });
    const target = fixture.withSpec({
      command: ['/bin/sh', '-c', 'trap "" TERM; echo $$ >command.pid; while :; do sleep 0.05; done'],
    });
    const machine = handle(fixture, target);
    await machine.done('ensure');
    const stubborn = await pidIn(fixture.work(target, 'command.pid'));
    const first = await fixture.open().stop(target);
    expect(first).toMatchObject({ outcome: 'wait' });
    expect(await isAlive(stubborn)).toBe(true);
    await machine.done('stop');
    expect(await isAlive(stubborn)).toBe(false);
    expect(await fixture.pids(target)).toEqual([]);
  });

  it('sends SIGTERM to a daemon that outlived the agent', async () => {
    fixture = await localFixture();
    const target = fixture.withSpec({
      setup: `(setsid /bin/sh -c 'trap "echo bye >farewell; exit 0" TERM; echo $$ >daemon.pid; while :; do sleep 0.05; done' &)`,
    });
    const machine = handle(fixture, target);
    await machine.done('ensure');
    const daemon = await pidIn(fixture.work(target, 'daemon.pid'));
    await machine.done('stop');
    expect(await isAlive(daemon)).toBe(false);
    expect(await readFile(fixture.work(target, 'farewell'), 'utf8')).toBe('bye\n');
  });
});

describe('destroy', () => {
  it('ends a double-forked daemon that only its working directory identifies', async () => {
    fixture = await localFixture();
    const target = fixture.withSpec({
      setup: `(env -i /usr/bin/setsid /bin/sh -c 'echo $$ >daemon.pid; exec /bin/sleep 1000' &)`,
    });
    const machine = handle(fixture, target);
    await machine.done('ensure');
    const daemon = await pidIn(fixture.work(target, 'daemon.pid'));
    await until(
      async () => !(await readFile(`/proc/${daemon}/environ`, 'utf8')).includes('SLIPWAY'),
      'the daemon to have an empty environment',
    );
    await machine.done('destroy');
    expect(await isAlive(daemon)).toBe(false);
    expect(await fixture.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
  });

  it('ends a process in another directory that only its tags identify', async () => {
    fixture = await localFixture();
    const target = fixture.withSpec({ setup: `(cd / && setsid /bin/sleep 1000 & echo $! >stray.pid)` });
    const machine = handle(fixture, target);
    await machine.done('ensure');
    const stray = await pidIn(fixture.work(target, 'stray.pid'));
    await machine.done('destroy');
    expect(await isAlive(stray)).toBe(false);
  });

  it('ends a child process that only its parent identifies', async () => {
    fixture = await localFixture();
    const target = fixture.withSpec({
      command: [
        '/bin/sh',
        '-c',
        `cd /; env -i /bin/sh -c 'echo $$ >${fixture.nodes_dir}/bare.pid; exec sleep 1000' & wait`,
      ],
    });
    const machine = handle(fixture, target);
    await machine.done('ensure');
    const bare = await pidIn(join(fixture.nodes_dir, 'bare.pid'));
    await machine.done('destroy');
    expect(await isAlive(bare)).toBe(false);
  });

  it('removes read-only trees, and links but not their targets', async () => {
    fixture = await localFixture();
    const outside = join(fixture.nodes_dir, '..', 'precious');
    await mkdir(outside);
    await writeFile(join(outside, 'data'), 'keep me');
    const target = fixture.withSpec({
      setup: `mkdir -p a/b && echo x >a/b/c && ln -s ${outside} a/out && ln -s ${outside}/data file && chmod -R a-w a/b && chmod 0 a`,
    });
    const machine = handle(fixture, target);
    await machine.done('ensure');
    await fixture.ready(target);
    await machine.done('destroy');
    await expect(lstat(fixture.directory(target))).rejects.toThrow('ENOENT');
    expect(await readFile(join(outside, 'data'), 'utf8')).toBe('keep me');
  });

  it("does not follow a link in place of the instance's directory", async () => {
    fixture = await localFixture();
    const outside = join(fixture.nodes_dir, '..', 'precious');
    await mkdir(outside);
    await writeFile(join(outside, 'data'), 'keep me');
    const target = fixture.withSpec({});
    await mkdir(fixture.nodes_dir);
    await symlink(outside, fixture.directory(target));
    expect(await fixture.open().ensure(target)).toMatchObject({ outcome: 'failed', code: 'directory_of_another' });
    expect(await fixture.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ code: 'not_absent' });
    await handle(fixture, target).done('destroy');
    await expect(lstat(fixture.directory(target))).rejects.toThrow('ENOENT');
    expect(await readFile(join(outside, 'data'), 'utf8')).toBe('keep me');
  });

  it("does not end a process that only mentions the instance, or another installation's process", async () => {
    fixture = await localFixture();
    const target = fixture.withSpec({});
    const otherPids = [
      plant(['/bin/sleep', '1000'], { NOTE: `SLIPWAY_NODE_INSTANCE_ID=${target.node_instance_id}` }),
      plant(['/bin/sleep', '1000'], {
        SLIPWAY_NODE_INSTANCE_ID: target.node_instance_id,
        SLIPWAY_INSTALLATION_ID: 'another',
      }),
    ];
    await handle(fixture, target).done('destroy');
    const areAlive = await Promise.all(otherPids.map(isAlive));
    for (const pid of otherPids) signal(pid, 'SIGKILL');
    expect(areAlive).toEqual([true, true]);
  });
});

describe('prove', () => {
  it('refuses the proof while only a process or only a directory exists', async () => {
    fixture = await localFixture();
    const target = fixture.withSpec({});
    const { installation_id, node_instance_id } = target;
    const pid = plant(['/bin/sleep', '1000'], {
      SLIPWAY_NODE_INSTANCE_ID: node_instance_id,
      SLIPWAY_INSTALLATION_ID: installation_id,
    });
    const prove = () => fixture.open().prove(target, { kind: 'absent', nonce: 'n' });
    expect(await prove()).toMatchObject({ code: 'not_absent', message: expect.stringContaining(`processes ${pid}`) });
    await mkdir(fixture.directory(target), { recursive: true });
    await fixture.killMachine(target);
    expect(await prove()).toMatchObject({
      code: 'not_absent',
      message: expect.stringContaining(fixture.directory(target)),
    });
    await handle(fixture, target).done('destroy');
    expect(await prove()).toMatchObject({
      outcome: 'done',
      proof: { nonce: 'n', checked: [{}, { seen: 'does not exist' }] },
    });
  });

  it('refuses to prove cleanliness', async () => {
    fixture = await localFixture();
    const proof = fixture.open().prove(fixture.withSpec({}), { kind: 'clean', nonce: 'n' });
    expect(await proof).toMatchObject({ outcome: 'failed', code: 'proof_not_offered', retryable: false });
  });
});
