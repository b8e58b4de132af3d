import { lstat, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { handle } from '../conformance.ts';
import { alive, type LocalWorld, localWorld, plant, signal, until } from './testing/local-world.ts';

let world: LocalWorld;
afterEach(() => world.close());

/** The pid that a test script wrote about itself. */
async function pidIn(path: string): Promise<number> {
  await until(async () => (await readFile(path, 'utf8').catch(() => '')).endsWith('\n'), `a pid in ${path}`);
  return Number(await readFile(path, 'utf8'));
}

describe('stop', () => {
  it('lets the agent end its command cleanly', async () => {
    world = await localWorld();
    const target = world.withSpec({
      command: [
        '/bin/sh',
        '-c',
        'trap "echo bye >farewell; exit 0" TERM; echo $$ >command.pid; while :; do sleep 0.05; done',
      ],
    });
    const machine = handle(world, target);
    await machine.done('ensure');
    await pidIn(world.work(target, 'command.pid'));
    await machine.done('stop');
    expect(await readFile(world.work(target, 'farewell'), 'utf8')).toBe('bye\n');
    expect(await world.pids(target)).toEqual([]);
    expect(await world.open().observe(target)).toMatchObject({ state: 'exited', present: true });
  });

  it('kills what ignores SIGTERM at the end of the grace period, and not before', async () => {
    world = await localWorld({ stop_grace_seconds: 0.5 });
    const target = world.withSpec({
      command: ['/bin/sh', '-c', 'trap "" TERM; echo $$ >command.pid; while :; do sleep 0.05; done'],
    });
    const machine = handle(world, target);
    await machine.done('ensure');
    const stubborn = await pidIn(world.work(target, 'command.pid'));
    const first = await world.open().stop(target);
    expect(first).toMatchObject({ outcome: 'wait' });
    expect(await alive(stubborn)).toBe(true);
    await machine.done('stop');
    expect(await alive(stubborn)).toBe(false);
    expect(await world.pids(target)).toEqual([]);
  });

  it('sends SIGTERM to a daemon that outlived the agent, then kills it', async () => {
    world = await localWorld();
    const target = world.withSpec({
      setup: `(setsid /bin/sh -c 'trap "echo bye >farewell; exit 0" TERM; echo $$ >daemon.pid; while :; do sleep 0.05; done' &)`,
    });
    const machine = handle(world, target);
    await machine.done('ensure');
    const daemon = await pidIn(world.work(target, 'daemon.pid'));
    await machine.done('stop');
    expect(await alive(daemon)).toBe(false);
    expect(await readFile(world.work(target, 'farewell'), 'utf8')).toBe('bye\n');
  });
});

describe('destroy', () => {
  it('ends a double-forked daemon without session, parent and environment', async () => {
    world = await localWorld();
    const target = world.withSpec({
      setup: `(env -i /usr/bin/setsid /bin/sh -c 'echo $$ >daemon.pid; exec /bin/sleep 1000' &)`,
    });
    const machine = handle(world, target);
    await machine.done('ensure');
    const daemon = await pidIn(world.work(target, 'daemon.pid'));
    await until(
      async () => !(await readFile(`/proc/${daemon}/environ`, 'utf8')).includes('SLIPWAY'),
      'environment shed',
    );
    await machine.done('destroy');
    expect(await alive(daemon)).toBe(false);
    expect(await world.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
  });

  it('ends a process in another directory, by its tags alone', async () => {
    world = await localWorld();
    const target = world.withSpec({ setup: `(cd / && setsid /bin/sleep 1000 & echo $! >stray.pid)` });
    const machine = handle(world, target);
    await machine.done('ensure');
    const stray = await pidIn(world.work(target, 'stray.pid'));
    await machine.done('destroy');
    expect(await alive(stray)).toBe(false);
  });

  it('ends a child that shed everything but its parents', async () => {
    world = await localWorld();
    const target = world.withSpec({
      command: [
        '/bin/sh',
        '-c',
        `cd /; env -i /bin/sh -c 'echo $$ >${world.nodes_dir}/bare.pid; exec sleep 1000' & wait`,
      ],
    });
    const machine = handle(world, target);
    await machine.done('ensure');
    const bare = await pidIn(join(world.nodes_dir, 'bare.pid'));
    await machine.done('destroy');
    expect(await alive(bare)).toBe(false);
  });

  it('removes read-only trees, and links without their targets', async () => {
    world = await localWorld();
    const outside = join(world.nodes_dir, '..', 'precious');
    await mkdir(outside);
    await writeFile(join(outside, 'data'), 'keep me');
    const target = world.withSpec({
      setup: `mkdir -p a/b && echo x >a/b/c && ln -s ${outside} a/out && ln -s ${outside}/data file && chmod -R a-w a/b && chmod 0 a`,
    });
    const machine = handle(world, target);
    await machine.done('ensure');
    await world.ready(target);
    await machine.done('destroy');
    await expect(lstat(world.directory(target))).rejects.toThrow('ENOENT');
    expect(await readFile(join(outside, 'data'), 'utf8')).toBe('keep me');
  });

  it("does not follow a link in place of the instance's directory", async () => {
    world = await localWorld();
    const outside = join(world.nodes_dir, '..', 'precious');
    await mkdir(outside);
    await writeFile(join(outside, 'data'), 'keep me');
    const target = world.withSpec({});
    world.open();
    await symlink(outside, world.directory(target));
    expect(await world.open().ensure(target)).toMatchObject({ outcome: 'failed', code: 'directory_of_another' });
    expect(await world.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ code: 'not_absent' });
    await handle(world, target).done('destroy');
    await expect(lstat(world.directory(target))).rejects.toThrow('ENOENT');
    expect(await readFile(join(outside, 'data'), 'utf8')).toBe('keep me');
  });

  it("spares a foreign process that merely names the instance, and another installation's", async () => {
    world = await localWorld();
    const target = world.withSpec({});
    const strangers = [
      plant(['/bin/sleep', '1000'], { NOTE: `SLIPWAY_NODE_INSTANCE_ID=${target.node_instance_id}` }),
      plant(['/bin/sleep', '1000'], {
        SLIPWAY_NODE_INSTANCE_ID: target.node_instance_id,
        SLIPWAY_INSTALLATION_ID: 'another',
      }),
    ];
    await handle(world, target).done('destroy');
    const spared = await Promise.all(strangers.map(alive));
    for (const pid of strangers) signal(pid, 'SIGKILL');
    expect(spared).toEqual([true, true]);
  });
});

describe('prove', () => {
  it('reports a lone process and a lone directory', async () => {
    world = await localWorld();
    const target = world.withSpec({});
    const { installation_id, node_instance_id } = target;
    const pid = plant(['/bin/sleep', '1000'], {
      SLIPWAY_NODE_INSTANCE_ID: node_instance_id,
      SLIPWAY_INSTALLATION_ID: installation_id,
    });
    const ask = () => world.open().prove(target, { kind: 'absent', nonce: 'n' });
    expect(await ask()).toMatchObject({ code: 'not_absent', message: expect.stringContaining(`processes ${pid}`) });
    await mkdir(world.directory(target), { recursive: true });
    await world.killMachine(target);
    expect(await ask()).toMatchObject({
      code: 'not_absent',
      message: expect.stringContaining(world.directory(target)),
    });
    await handle(world, target).done('destroy');
    expect(await ask()).toMatchObject({
      outcome: 'done',
      proof: { nonce: 'n', checked: [{}, { seen: 'does not exist' }] },
    });
  });

  it('leaves the statement of cleanliness to the agent', async () => {
    world = await localWorld();
    const proof = world.open().prove(world.withSpec({}), { kind: 'clean', nonce: 'n' });
    expect(await proof).toMatchObject({ outcome: 'failed', code: 'proof_not_offered', retryable: false });
  });
});
