/**
 * Tests of the docker driver that run against every real engine. They check how the driver handles
 * the engine's answers, and that no answer holds a secret.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { redactionMark } from '../../../src/base/redaction/redact.ts';
import { handle } from '../../../src/drivers/conformance.ts';
import type { DockerDriverOptions } from '../../../src/drivers/docker/docker-driver.ts';
import { containerName } from '../../../src/drivers/docker/labels.ts';
import type { EnsureTarget } from '../../../src/drivers/driver.ts';
import { until } from '../until.ts';
import { type DockerFixture, dockerFixture } from './docker-fixture.ts';
import type { StartEngine, TestEngine } from './engine.ts';
import { type Registry, startRegistry } from './registry.ts';

const login = { username: 'slipway', password: 'correct-horse-battery' };
export function describeDockerDriver(name: string, start: StartEngine): void {
  describe(`docker driver on ${name}`, () => {
    let directory: string;
    let registry: Registry;
    let engine: TestEngine;
    const fixtures: DockerFixture[] = [];

    const fixtureWith = (options: Partial<DockerDriverOptions> = {}) => {
      const fixture = dockerFixture(engine, options);
      fixtures.push(fixture);
      return fixture;
    };

    /** Writes a login in the format of `docker login`. */
    function authFile(password: string): string {
      const path = join(directory, `${password}.json`);
      const auth = Buffer.from(`${login.username}:${password}`).toString('base64');
      writeFileSync(path, JSON.stringify({ auths: { [registry.address]: { auth } } }));
      return path;
    }

    /** Replaces the Node program, and so the agent, in containers that mount this host's Node. */
    function fakeNode(script: string): Partial<DockerDriverOptions> {
      const node = join(mkdtempSync(join(directory, 'node-')), 'node');
      const bundle = join(directory, 'agent.mjs');
      writeFileSync(node, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
      writeFileSync(bundle, '');
      return { agent_files: { node, bundle } };
    }

    beforeAll(async () => {
      directory = mkdtempSync(join(tmpdir(), 'slipway-docker-'));
      registry = await startRegistry(login);
      engine = await start({ registry: registry.address });
    });
    afterEach(async () => {
      for (const fixture of fixtures.splice(0)) await fixture.close();
    });
    afterAll(async () => {
      await engine.close();
      await registry.close();
      rmSync(directory, { recursive: true });
    });

    const inspect = async (fixture: DockerFixture, target: EnsureTarget) => {
      const [container] = await fixture.containersOf(target);
      const { body } = await engine.call<Record<string, unknown>>('GET', `/containers/${container?.Id}/json`);
      return JSON.stringify(body);
    };

    const waitForExit = (fixture: DockerFixture, target: EnsureTarget) =>
      until('the container to exit', async () =>
        (await fixture.open().inspect(target)).state === 'exited' ? true : undefined,
      );

    it('pulls an image that the engine does not have, and reports progress', async () => {
      const fixture = fixtureWith({ auth_file: authFile(login.password) });
      const target = fixture.withSpec({ image: registry.image });
      const driver = fixture.open();
      const partial = await until('the pull to be partly done', async () => {
        const answer = await driver.ensure(target);
        // A busy engine may answer too late. Then the driver returns no parts, and we retry.
        expect(answer.outcome).toBe('wait');
        return answer.outcome === 'wait' && answer.parts?.length ? answer : undefined;
      });
      expect(partial.phase).toBe('pull_image');
      expect(partial.message).toMatch(/pulling image 127\.0\.0\.1:\d+\/worker:1: 0 of \d layers/);
      expect(partial.parts?.[0]).toMatchObject({ kind: 'layer', tone: 'busy' });
      registry.release();
      // The image has nothing to run, so only the existence of its container matters.
      await until('a container of the image', async () => {
        await driver.ensure(target);
        return (await fixture.containersOf(target)).length === 1 ? true : undefined;
      });
    });

    it.each([
      ['an image that the registry does not have', login.password, 'nothing:9', 'image_missing'],
      ['a name that no image can have', login.password, 'Upper/Case:1', 'image_missing'],
      ['a registry that refuses our password', 'wrong-horse-battery', 'worker:2', 'image_denied'],
    ])('fails at once with an error code for %s', async (_, password, image, code) => {
      const fixture = fixtureWith({ auth_file: authFile(password) });
      const machine = handle(fixture, fixture.withSpec({ image: `${registry.address}/${image}` }));
      const failure = await machine.ended('ensure');
      expect(failure).toMatchObject({
        outcome: 'failed',
        owner_layer: 'provider',
        code,
        retryable: false,
        phase: 'pull_image',
      });
      expect(failure.message).toContain(image);
      expect(failure.message, 'an internal phrase of the HTTP client').not.toContain('HTTP code');
      for (const secret of [password, Buffer.from(`${login.username}:${password}`).toString('base64')])
        expect(JSON.stringify(failure)).not.toContain(secret);
      expect(await fixture.containersOf(machine.target)).toEqual([]);
    });

    it('retries while the registry is unreachable', async () => {
      const fixture = fixtureWith();
      const target = fixture.withSpec({ image: 'localhost:1/nothing:1' });
      const driver = fixture.open();
      const answer = await until('the pull to fail', async () => {
        const outcome = await driver.ensure(target);
        return outcome.outcome === 'wait' && outcome.error?.code === 'image_pull_failed' ? outcome : undefined;
      });
      expect(answer).toMatchObject({ outcome: 'wait', retry_seconds: 5, phase: 'pull_image' });
      // The error stays in the answer while the next pull runs, so that a deadline that passes in
      // the meantime can name the error.
      for (let times = 0; times < 3; times++) {
        const next = await driver.ensure(target);
        // A busy engine may answer too late, which is a different code.
        expect(['image_pull_failed', 'not_answered']).toContain(next.outcome === 'wait' && next.error?.code);
      }
    });

    it('passes the enrolment token in a file that inspection does not show', async () => {
      const fixture = fixtureWith(
        fakeNode('echo "$(cat /var/lib/slipway/agent.json)"; trap "exit 0" TERM; sleep 1000 & wait'),
      );
      const { target, done } = handle(
        fixture,
        fixture.withSpec({ agent: 'mounted', env: { PLAIN: 'only-for-the-command' } }),
      );
      const answer = await done('ensure');
      const { enrollment_token } = target.bootstrap;
      const output = `${await inspect(fixture, target)} ${JSON.stringify(answer)}`;
      expect(output).not.toContain(enrollment_token);
      expect(output).not.toContain('only-for-the-command');
      // The script printed its configuration, so the token arrived; the diagnosis redacts it.
      const log = await until('the output of the container', async () =>
        (await fixture.open().diagnose(target)).attachments.at(0),
      );
      expect(log.text).toContain(`"enrollment_token":"${redactionMark}"`);
      expect(log.text).toContain('only-for-the-command');
    });

    it('does not restart a container that exited, and reports how it exited', async () => {
      const fixture = fixtureWith(fakeNode('echo password=hunter2hunter2; echo no licence >&2; exit 7'));
      const { target, done, ended } = handle(fixture, fixture.withSpec({ agent: 'mounted' }));
      await done('ensure');
      await waitForExit(fixture, target);
      expect(await fixture.open().inspect(target)).toMatchObject({ present: true, ready: false });
      const diagnosis = await fixture.open().diagnose(target);
      expect(diagnosis).toMatchObject({ summary: 'the container exited with code 7', certain: true });
      expect(diagnosis.attachments[0]?.text).toContain('no licence');
      expect(JSON.stringify(diagnosis)).not.toContain('hunter2hunter2');
      expect(await ended('ensure')).toMatchObject({
        outcome: 'failed',
        owner_layer: 'node',
        code: 'agent_exited',
        retryable: false,
      });
    });

    it("reports the agent's exit reason", async () => {
      const exitReport = JSON.stringify({ code: 'registration_refused', reason: 'the token was used up' });
      const fixture = fixtureWith(fakeNode(`echo '${exitReport}' > /var/lib/slipway/node/agent.exit.json; exit 13`));
      const { target, done } = handle(fixture, fixture.withSpec({ agent: 'mounted' }));
      await done('ensure');
      await waitForExit(fixture, target);
      // Podman hides a container's files for a moment while it cleans up.
      const diagnosis = await until('the exit report', async () => {
        const current = await fixture.open().diagnose(target);
        return current.code ? current : undefined;
      });
      expect(diagnosis).toMatchObject({
        code: 'registration_refused',
        summary: 'the token was used up (the agent gave up: registration_refused)',
        certain: true,
      });
    });

    it('does not touch a container of the same name without its labels', async () => {
      const fixture = fixtureWith();
      const { target, ended, done } = handle(fixture, fixture.withSpec({}));
      const { body } = await engine.call<{ Id: string }>('POST', `/containers/create?name=${containerName(target)}`, {
        Image: engine.image,
        Labels: { owner: 'someone else' },
      });
      expect(await ended('ensure')).toMatchObject({ outcome: 'failed', code: 'name_of_another', retryable: false });
      await done('destroy');
      expect((await engine.call('DELETE', `/containers/${body.Id}`)).status, 'the foreign container still exists').toBe(
        204,
      );
    });

    it('fails with server_unreachable when no container can reach the server', async () => {
      const fixture = fixtureWith();
      const machine = handle(fixture, fixture.withSpec({ network: 'bridge' }));
      const failure = { outcome: 'failed', owner_layer: 'control_plane', code: 'server_unreachable', retryable: false };
      const message = expect.stringMatching(/network: host.*--public-url/);
      expect(await machine.ended('ensure')).toMatchObject({ ...failure, message });
      expect(await fixture.containersOf(machine.target)).toEqual([]);
    });
  });
}
