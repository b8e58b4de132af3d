/** Generated bad requests are refused with a problem of the catalogue, and change nothing. */
import { randomInt } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { protocolPath } from '../../../src/contract/compat/routes.ts';
import { routes } from '../../../src/contract/routes.ts';
import { type BadRequest, badRequests, bearerFor, json, protocolBodies } from '../support/bad-requests.ts';
import { type Answer, expectProblem } from '../support/calls.ts';
import { expectProtocolError, startWorkspace, type Workspace } from '../support/compat-clients.ts';
import { type TenantFixture, tenantFixture, withoutIngestWatch } from '../support/tenants.ts';
import { openWire, type Wire } from '../support/wire.ts';

const seed = Number(process.env.SLIPWAY_SEED ?? randomInt(2 ** 31));
const requestCount = Number(process.env.SLIPWAY_BAD_REQUESTS ?? 3_000);
const maxMs = 45_000;

/** One machine sends all bad rotations, which are more than the default limit allows. */
const rotationLimit = 'limits: { requests: { rotation: { burst: 100000, per_second: 1000 } } }';

let directory: string;
let fixture: TenantFixture;
let wire: Wire;
let workspace: Workspace;
let snapshotBefore: Record<string, string>;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-bad-input-'));
  const config = join(directory, 'slipway.yaml');
  await writeFile(config, rotationLimit);
  fixture = await tenantFixture({ args: ['--config', config], composition: withoutIngestWatch });
  wire = openWire(fixture.url);
  workspace = await startWorkspace(fixture.url, fixture.join_token, '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c01');
  snapshotBefore = await fixture.tables.snapshot();
  console.log(`bad input: SLIPWAY_SEED=${seed}`);
});
afterAll(async () => {
  wire.close();
  await fixture.stop();
  await rm(directory, { recursive: true, force: true });
});

const sendRequest = ({ name, path, headers, body }: BadRequest): Promise<Answer> =>
  wire.send(routes[name].method, path, { ...bearerFor(name, fixture), ...headers }, body);

it('refuses thousands of bad requests with problems, and changes nothing', { timeout: 120_000 }, async () => {
  const countsByCode = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(badRequests, async (request) => {
      const answer = await sendRequest(request);
      expectProblem(answer, request.codes, `${request.name} (${request.what}) ${request.path}`);
      expect(answer.status).toBeLessThan(500);
      countsByCode.set(String(answer.body.code), (countsByCode.get(String(answer.body.code)) ?? 0) + 1);
    }),
    { numRuns: requestCount, seed, interruptAfterTimeLimit: maxMs, markInterruptAsFailure: false },
  );
  const refusedCount = [...countsByCode.values()].reduce((sum, count) => sum + count, 0);
  console.log(`bad input: ${refusedCount} requests refused: ${JSON.stringify(Object.fromEntries(countsByCode))}`);
  expect(refusedCount).toBeGreaterThan(500);
  expect(await fixture.tables.snapshot()).toEqual(snapshotBefore);
});

it('refuses bad bodies of foreign protocols in the shape of the protocol, and changes nothing', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(...protocolBodies), async ({ name, route, body }) => {
      const bearer = route.access === 'instance' ? workspace.auth_token : fixture.join_token;
      const path = protocolPath(route).replace('{id}', 'nobody');
      const answer = await wire.send(route.method, path, { authorization: `Bearer ${bearer}`, ...json }, body);
      expectProtocolError(answer, 400, `${name} ${body.slice(0, 200)}`);
    }),
    { numRuns: Math.ceil(requestCount / 10), seed, interruptAfterTimeLimit: maxMs, markInterruptAsFailure: false },
  );
  expect(await fixture.tables.snapshot()).toEqual(snapshotBefore);
});
