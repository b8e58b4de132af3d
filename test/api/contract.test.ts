/** The OpenAPI document, the error catalogue and their pages match what the server does. */
import { globSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contractDocs, fromRoot } from '../../scripts/generate-contract-docs.ts';
import type { ProtocolRoute } from '../../src/contract/compat/protocol.ts';
import { protocolRoutes } from '../../src/contract/compat/routes.ts';
import { type ErrorCode, errorCatalogue } from '../../src/contract/errors/errors.ts';
import { pathFaults } from '../../src/contract/errors/path-faults.ts';
import { documentedProblems, problemsByStatus } from '../../src/contract/openapi/problems.ts';
import type { RouteDeclaration } from '../../src/contract/route.ts';
import { type OperationName, routes } from '../../src/contract/routes.ts';
import { openBrowser } from '../browser/support/console.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { send } from './support/calls.ts';
import { startMachine } from './support/machine.ts';

let server: TestServer;
beforeAll(async () => {
  server = await inProcessServer();
});
afterAll(() => server.stop());

/**
 * Codes that no operation documents, because the server sends them on a stream or for one heartbeat
 * of a batch, a relay sends them, or they belong to no route.
 */
const undocumentedCodes = [
  'stream_replaced',
  'stream_silent',
  'stream_overrun',
  'relay_upstream_away',
  'relay_token_refused',
  'beat_credential_missing',
  'method_not_allowed',
];

const codes = [...Object.keys(errorCatalogue), ...Object.keys(pathFaults)].sort();

describe('the error catalogue', () => {
  it.each(Object.entries(contractDocs))('%s is generated from the current contract', (path, render) => {
    expect(readFileSync(fromRoot(path), 'utf8')).toBe(render());
  });

  it('documents every code, and every documented code exists', () => {
    const documentedCodes = [...readFileSync(fromRoot('docs/reference/errors.md'), 'utf8').matchAll(/^### (\S+)$/gm)];
    expect(documentedCodes.map(([, code]) => code).sort()).toEqual(codes);
  });

  it('has no unused code', () => {
    const sources = globSync('src/**/*.ts', { cwd: fromRoot('') })
      .filter((path) => !path.endsWith('.test.ts') && path !== 'src/contract/errors/errors.ts')
      .map((path) => readFileSync(fromRoot(path), 'utf8'))
      .join('\n');
    expect(codes.filter((code) => !sources.includes(`'${code}'`))).toEqual([]);
  });

  it("is served at the address in a problem's type", async () => {
    const { body } = await send(server.url, 'GET', '/v1/nodes');
    const type = new URL(String(body.type), `${server.url}/v1/nodes`);
    const page = await send(server.url, 'GET', type.pathname);
    expect(page.headers.get('content-type')).toContain('text/html');
    for (const code of codes) expect(page.text).toContain(`id="${code}"`);
    expect(page.text).toContain(`id="${type.hash.slice(1)}"`);
  });
});

interface Operation {
  path: string;
  method: string;
  operationId: string;
  tags: string[];
  security: object[];
  parameters: { name: string; in: string }[];
  responses: Record<string, { $ref?: string }>;
  requestBody?: { content: Record<string, { schema: { $ref?: string } }> };
}

interface Document {
  openapi: string;
  servers: { url: string }[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Omit<Operation, 'path' | 'method'>>>;
  components: Record<'schemas' | 'responses' | 'parameters' | 'headers' | 'securitySchemes', Record<string, object>>;
}

const operationsOf = (document: Document): Operation[] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
  );

/** The address of each operation, of our own API and of the foreign protocols. */
const addresses = new Map<string, string>([
  ...Object.entries<RouteDeclaration>(routes).map(([name, { method, path }]) => [name, `${method} ${path}`] as const),
  ...Object.entries<ProtocolRoute>(protocolRoutes).map(
    ([name, { method, protocol, path }]) => [name, `${method} /compat/${protocol}${path}`] as const,
  ),
]);

describe('the OpenAPI document', () => {
  let document: Document;
  beforeAll(async () => {
    document = (await send(server.url, 'GET', '/openapi.json')).body as unknown as Document;
  });

  it('has every route once, under its operation id, with all its parameters', () => {
    expect(document.openapi).toBe('3.1.0');
    const operations = operationsOf(document);
    expect(operations.map(({ operationId }) => operationId).sort()).toEqual([...addresses.keys()].sort());
    for (const { path, method, operationId, parameters, requestBody } of operations) {
      expect(`${method.toUpperCase()} ${path}`).toBe(addresses.get(operationId));
      const inPath = parameters.filter((each) => each.in === 'path').map(({ name }) => `{${name}}`);
      expect(inPath).toEqual(path.match(/\{\w+\}/g) ?? []);
      const { body, extra_content_types }: Partial<RouteDeclaration> = { ...routes, ...protocolRoutes }[
        operationId as OperationName
      ];
      expect(requestBody !== undefined, operationId).toBe(body !== undefined || extra_content_types !== undefined);
    }
  });

  it('names the server and describes each tag', () => {
    expect(document.servers).toHaveLength(1);
    const usedTags = new Set(operationsOf(document).flatMap(({ tags }) => tags));
    expect(document.tags.map(({ name }) => name).sort()).toEqual([...usedTags].sort());
    for (const { description } of document.tags) expect(description).not.toBe('');
  });

  it('documents Retry-After even for a status that is both a reply and a problem', () => {
    const unreadyResponse = operationsOf(document).find(({ operationId }) => operationId === 'readiness-get')
      ?.responses[503];
    expect(unreadyResponse).toMatchObject({ headers: { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } } });
  });

  it('lists every status of each operation, with its codes', () => {
    for (const { operationId, responses } of operationsOf(document)) {
      const { success, also_answers = {} }: Partial<RouteDeclaration> = { ...routes, ...protocolRoutes }[
        operationId as OperationName
      ];
      const problems = [...problemsByStatus(operationId).keys()].map(String);
      const statuses = new Set([String(success), ...Object.keys(also_answers), ...problems]);
      expect(Object.keys(responses).sort(), operationId).toEqual([...statuses].sort());
      for (const [status, codes] of problemsByStatus(operationId))
        if (!(status in also_answers)) expect(responses[status]?.$ref?.split('.').slice(2), operationId).toEqual(codes);
    }
    const documentedCodes = new Set([...addresses.keys()].flatMap((name) => [...(documentedProblems(name) ?? [])]));
    const otherCodes = Object.keys(errorCatalogue).filter((code) => !documentedCodes.has(code as ErrorCode));
    expect(otherCodes.sort()).toEqual([...undocumentedCodes].sort());
  });

  it('documents at least one 4xx for each operation, and no default response', () => {
    const violations = operationsOf(document).filter(
      ({ responses }) => 'default' in responses || !Object.keys(responses).some((status) => status.startsWith('4')),
    );
    expect(violations.map(({ operationId }) => operationId)).toEqual([]);
  });

  it('documents both answers to a registration: of a new instance, and of a repeat', async () => {
    const { client, url } = server;
    await client.call('pool-put', { params: { pool: 'outside' }, body: { driver: 'external' } });
    const { token: join_token = '' } = await client.call('join-token-create', { params: { pool: 'outside' } });
    // `startMachine` fails unless the first answer is 201.
    const machine = await startMachine(url, { join_token, name: 'registers-twice' });
    expect((await machine.call('agent-register', { body: { version: 'test' } })).status).toBe(200);
    const registration = operationsOf(document).find(({ operationId }) => operationId === 'agent-register');
    expect(Object.keys(registration?.responses ?? {})).toEqual(expect.arrayContaining(['200', '201']));
  });

  it('describes an NDJSON body as the list of its lines', () => {
    const bodies = operationsOf(document).flatMap(({ operationId, requestBody }) => {
      const { schema } = requestBody?.content['application/x-ndjson'] ?? {};
      const name = schema?.$ref?.split('/').at(-1);
      return schema ? [{ operationId, schema: name ? document.components.schemas[name] : schema }] : [];
    });
    expect(bodies).toEqual([
      { operationId: 'agent-logs', schema: expect.objectContaining({ type: 'array', items: expect.anything() }) },
    ]);
  });

  it('excludes NUL from all text that a caller may send', () => {
    const { schemas } = document.components;
    const visitedRefs = new Set<string>();
    const violations: string[] = [];
    const checkSchema = (schema: unknown, at: string): void => {
      if (typeof schema !== 'object' || schema === null) return;
      const { $ref, type, pattern, enum: values } = schema as Record<string, unknown>;
      if (typeof $ref === 'string' && !visitedRefs.has($ref)) {
        visitedRefs.add($ref);
        checkSchema(schemas[$ref.split('/').at(-1) ?? ''], $ref);
      }
      if (type === 'string' && !values && (typeof pattern !== 'string' || new RegExp(pattern, 'u').test('a=a\0')))
        violations.push(at);
      for (const [key, each] of Object.entries(schema)) checkSchema(each, `${at}/${key}`);
    };
    for (const { operationId, parameters, requestBody } of operationsOf(document)) {
      checkSchema(parameters, `${operationId}/parameters`);
      checkSchema(requestBody, `${operationId}/body`);
    }
    expect(violations).toEqual([]);
  });

  it('refuses text with NUL or a lone surrogate, as documented', async () => {
    for (const reason of ['a\\u0000b', 'a\\ud800b']) {
      const { status, body } = await send(server.url, 'POST', '/v1/brake/resume', {
        bearer: server.token,
        raw: `{"reason":"${reason}"}`,
      });
      expect([status, body.code]).toEqual([400, 'invalid_request']);
    }
  });

  it('has no dangling and no unused references', () => {
    const references = new Set([...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref]) => ref));
    const definitions = (['schemas', 'responses', 'parameters', 'headers'] as const).flatMap((kind) =>
      Object.keys(document.components[kind]).map((name) => `#/components/${kind}/${name}`),
    );
    expect([...references].sort()).toEqual(definitions.sort());
    expect(JSON.stringify(document)).not.toContain('"$id"');
  });

  it('documents the access of each route', () => {
    const kinds = { public: [], person: ['token', 'session'], agent: ['instance_credential'], body: [] };
    // `no header`: the credential is in the body.
    const others: Partial<Record<OperationName, string[]>> = {
      'agent-stream': ['instance_credential', 'relay_token'],
      'agent-heartbeats': ['relay_token', 'no header'],
      'agent-register': ['instance_credential', 'no header'],
    };
    for (const [name, route] of Object.entries(routes) as [OperationName, RouteDeclaration][]) {
      const expected = others[name] ?? kinds[route.access.kind];
      const { security = [] } = document.paths[route.path]?.[route.method.toLowerCase()] ?? {};
      expect(
        security.flatMap((each) => (Object.keys(each).length > 0 ? Object.keys(each) : ['no header'])),
        name,
      ).toEqual(expected);
      for (const scheme of expected.filter((each) => each !== 'no header'))
        expect(document.components.securitySchemes).toHaveProperty(scheme);
    }
  });
});

it.each([
  ['/docs', 'Claim a node of a pool'],
  ['/docs/errors', 'allocation_not_found'],
])('%s loads in a browser without errors', async (path, expectedText) => {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    const errors: string[] = [];
    page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
    page.on('pageerror', (error) => errors.push(error.message));
    page.on('requestfailed', (request) => errors.push(request.url()));
    await page.goto(server.url + path, { timeout: 90_000 });
    await page.getByText(expectedText).first().waitFor({ timeout: 90_000 });
    expect(errors).toEqual([]);
  } finally {
    await browser.close();
  }
});
