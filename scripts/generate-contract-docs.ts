/**
 * Writes docs/reference/errors.md and docs/reference/api.md from the contract: `bin/run
 * scripts/generate-contract-docs.ts`.
 */
import { fileURLToPath } from 'node:url';
import { type ErrorEntry, errorCatalogue } from '../src/contract/errors/errors.ts';
import type { FaultEntry } from '../src/contract/errors/find-error.ts';
import { type PathFault, pathFaults } from '../src/contract/errors/path-faults.ts';
import type { Access, RouteDeclaration } from '../src/contract/route.ts';
import { routes } from '../src/contract/routes.ts';
import { runGenerator } from './generator/run-generator.ts';

const errorSection = ([code, entry]: [string, FaultEntry & { status?: number }]) =>
  [
    `### ${code}`,
    '',
    `${entry.status === undefined ? '' : `**${entry.status}** · `}${entry.title} · owner: ${entry.owner_layer}${entry.detail_layer ? ` (${entry.detail_layer})` : ''}`,
    '',
    `- Cause: ${entry.cause}`,
    `- Remedy: ${entry.remedy}`,
  ].join('\n');

const errorsPage = () =>
  `${[
    '# Errors',
    'For everybody who gets an error code: its cause, its owner and its remedy. Generated from `src/contract/errors/errors.ts` by `bin/run scripts/generate-contract-docs.ts`.',
    'Every error is `application/problem+json` (RFC 9457) with one of these codes. `owner_layer` names the layer that must act. `correlation_id` is also in evidence and logs. `type` links to the same text on the server (`/docs/errors`).',
    ...Object.entries<ErrorEntry>(errorCatalogue).map(errorSection),
    '## Faults of the connection',
    'The server does not send these. `slipway doctor`, `slipway agent doctor`, the CLI and the agent’s evidence use them when no answer arrives.',
    ...Object.entries<PathFault>(pathFaults).map(errorSection),
  ].join('\n\n')}\n`;

const credentialsInBody = {
  token: 'a token in the body',
  enrolment: 'an enrolment or join token in the body, or the instance credential',
  instances: 'one instance credential for each heartbeat',
  key: 'a signature by the key of the agent in the body',
};

function describeAccess(access: Access): string {
  switch (access.kind) {
    case 'public':
      return 'everybody';
    case 'agent':
      return 'instance credential';
    case 'body':
      return credentialsInBody[access.credential];
    case 'person':
      return `${access.role}${access.tenants === 'own' ? '; tenants for their own' : ''}`;
  }
}

const routeRow = ([name, route]: [string, RouteDeclaration]) =>
  `| \`${route.method} ${route.path}\` | ${route.summary} | ${describeAccess(route.access)} | \`${name}\` |`;

function apiPage(): string {
  const byTag = Map.groupBy(Object.entries<RouteDeclaration>(routes), ([, route]) => route.tag);
  const sections = [...byTag].map(([tag, entries]) =>
    [`## ${tag}`, '', '| call | does | access | operation id |', '|---|---|---|---|', ...entries.map(routeRow)].join(
      '\n',
    ),
  );
  return `${[
    '# HTTP API',
    'For authors of programs: every route. A running server shows the schemas at `/docs` and serves them at `/openapi.json`. Generated from `src/contract/routes.ts` by `bin/run scripts/generate-contract-docs.ts`.',
    'JSON in snake_case, times in RFC 3339. Unknown fields are refused, bodies are capped. Lists are `{items, next_cursor}`. Errors are in [errors.md](errors.md).',
    'Every call by which a person changes something accepts an `Idempotency-Key` header. A repeat with the same key and body gets the first answer again. Keys are kept per token for a day. The change, its stored answer and its audit entry are one transaction.',
    ...sections,
  ].join('\n\n')}\n`;
}

/** Maps each path from the repository root to its content. */
export const contractDocs: Record<string, () => string> = {
  'docs/reference/errors.md': errorsPage,
  'docs/reference/api.md': apiPage,
};

export const fromRoot = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

if (import.meta.main) await runGenerator(contractDocs);
