/**
 * Every read requires a Visibility. One file derives it from the token, and one file turns it into
 * SQL.
 */
import {
  child,
  eachFile,
  file,
  isServerProduct,
  nodesOf,
  type Rule,
  type SourceFile,
  type SyntaxNode,
  stringsOf,
  textOf,
} from './source.ts';

const isTenant = (node: SyntaxNode | undefined): boolean => node?.name === 'tenant';

const sqlAboutTenants = [
  /\btenant"?\s*(?:=|<>|!=)/i,
  /(?:=|<>|!=)\s*(?:any\s*\()?\s*(?:\w+\.)?tenant\b/i,
  /\btenant"?\s+(?:is\s+(?:not\s+)?(?:distinct|null)|(?:not\s+)?(?:in\s*\(|like\s))/i,
  /\bselect\s+(?:\w+\.)?tenant\s+from\b/i,
];

/** `expiring-tokens.ts` compares the scopes of two tokens; it does not select rows for a caller. */
const mayCompareTenants = ['src/store/visibility.ts', 'src/store/rows/sign-in/expiring-tokens.ts'];

const onePredicateFile: Rule = {
  name: 'SQL compares tenants in one file',
  check: eachFile(
    (path) => isServerProduct(path) && /^src\/(store|engine)\//.test(path) && !mayCompareTenants.includes(path),
    (source) =>
      stringsOf(source)
        .filter((text) => sqlAboutTenants.some((pattern) => pattern.test(text)))
        .map((text) => `compares tenants; use src/store/visibility.ts: ${text.trim().split('\n')[0]}`),
  ),
  broken: [
    "const q = 'select * from operations where tenant = $1';",
    `const q = \`select * from allocations own where own.tenant=\${bind(tenant)}\`;`,
    "const q = 'select 1 from allocations where $2::text is null or $2 = tenant';",
    "const q = 'select 1 from operations where tenant is not distinct from $1';",
    "const q = 'select 1 from allocations where tenant in ($1)';",
    "const q = '(select tenant from allocations where allocation_id = $1) = $2';",
    "const q = 'other.tenant <> $3';",
  ].map((text) => [file('src/store/rows/a.ts', text)]),
  fine: [
    file('src/store/visibility.ts', "const q = 'tenant = $1';"),
    file('src/store/rows/a.ts', "const q = 'insert into allocations (tenant) values ($1)'; const tenant = 'a';"),
    file('src/cli/a.ts', `const url = \`/v1/allocations?tenant=\${name}\`;`),
    file('src/store/rows/a.test.ts', "const q = 'tenant = $1';"),
  ],
};

/**
 * API code that names a visibility instead of passing on its caller's:
 * - auth.ts derives the visibility of the caller from its token
 * - refused-action.ts names the target of a refused call in evidence, whose readers are filtered
 * - live-feed.ts and progress-ticks.ts read once for all streams; stream-events.ts filters for
 *   each
 * - checkup.ts reads a node that was shown to the caller, or on which the calling agent runs
 * - explanations.ts reads the operation on a node that was shown to the caller
 * - allocations.ts narrows the caller's view to one tenant
 */
const mayNameVisibility = [
  'src/api/http/auth.ts',
  'src/api/http/refused-action.ts',
  'src/api/stream/live-feed.ts',
  'src/api/stream/progress-ticks.ts',
  'src/api/routes/checkup.ts',
  'src/api/routes/explanations.ts',
  'src/api/routes/allocations.ts',
];

/**
 * `{ kind: 'fleet' }` or `{ kind: 'tenant', tenant }`. A quota has the kind `tenant` too, but no
 * tenant.
 */
function isVisibility(node: SyntaxNode): boolean {
  const properties = node.properties as SyntaxNode[];
  const kind = child(
    properties.find((property) => child(property, 'key')?.name === 'kind'),
    'value',
  )?.value;
  return kind === 'fleet' || (kind === 'tenant' && properties.some((property) => isTenant(child(property, 'key'))));
}

function namesVisibility(source: SourceFile): string[] {
  const makers = nodesOf(source, 'Identifier').filter(({ name }) => name === 'wholeFleet' || name === 'tenantOnly');
  const literals = nodesOf(source, 'ObjectExpression').filter(isVisibility);
  return [...makers, ...literals].map((node) => `names ${textOf(source, node)}; pass on the caller's visibility`);
}

const callersVisibility: Rule = {
  name: "routes pass on their caller's visibility",
  check: eachFile(
    (path) => isServerProduct(path) && path.startsWith('src/api/') && !mayNameVisibility.includes(path),
    namesVisibility,
  ),
  broken: [
    "import { wholeFleet } from '../../lifecycle/visibility.ts'; readNode(db, id, wholeFleet);",
    "readNode(db, id, { kind: 'fleet' });",
    'readNode(db, id, tenantOnly(query.tenant));',
    "readNode(db, id, { kind: 'tenant', tenant });",
  ].map((text) => [file('src/api/routes/a.ts', text)]),
  fine: [
    file('src/api/http/auth.ts', 'const visibility = tenant === null ? wholeFleet : tenantOnly(tenant);'),
    file('src/api/routes/a.ts', "if (visibility.kind === 'fleet') readNode(db, id, person().visibility);"),
    file('src/api/limits/a.ts', "const quota = { kind: 'tenant', key };"),
    file('src/sweeps/a.ts', 'readNode(db, id, wholeFleet);'),
  ],
};

/**
 * Rows whose tenant may be null: operations on nodes, operators' tokens, and the former holder of a
 * node.
 */
const rowsWithTenant = ['OperationRow', 'NewOperation', 'TokenRow', 'ExpiringToken', 'PastNode'];

const isNullable = (source: SourceFile, node: SyntaxNode): boolean =>
  node.optional === true || /\b(null|undefined)\b/.test(textOf(source, child(node, 'typeAnnotation') ?? node));

function standsForVisibility(source: SourceFile): string[] {
  const rows = nodesOf(source, 'TSInterfaceDeclaration').filter((node) =>
    rowsWithTenant.includes(String(child(node, 'id')?.name)),
  );
  const properties = nodesOf(source, 'TSPropertySignature').filter(
    (node) =>
      isTenant(child(node, 'key')) &&
      isNullable(source, node) &&
      !rows.some((row) => row.start < node.start && node.end < row.end),
  );
  const parameters = nodesOf(source, 'Identifier').filter(
    (node) => isTenant(node) && child(node, 'typeAnnotation') && isNullable(source, node),
  );
  const defaults = nodesOf(source, 'AssignmentPattern').filter((node) => isTenant(child(node, 'left')));
  const reads = nodesOf(source, 'MemberExpression').filter(
    (node) =>
      isTenant(child(node, 'property')) &&
      /(?:^|\.)(?:person|caller)(?:\(\))?$/.test(textOf(source, child(node, 'object') ?? node)),
  );
  const suspects = [...properties, ...parameters, ...defaults, ...reads].map(
    (node) => `${textOf(source, node)} stands for what a caller may see; take a Visibility`,
  );
  // Code must compare with 'fleet', so that an unknown kind is restricted.
  const openByDefault = nodesOf(source, 'BinaryExpression')
    .map((node) => textOf(source, node))
    .filter((text) => /^(?:[\w.()]+\.)?visibility\.kind [!=]== 'tenant'$/.test(text))
    .map((text) => `${text}: compare with 'fleet' instead`);
  return [...suspects, ...openByDefault];
}

const noNullableTenant: Rule = {
  name: 'no missing tenant stands for the whole fleet',
  check: eachFile(
    (path) =>
      isServerProduct(path) &&
      /^src\/(api|lifecycle|operations|store|sweeps)\//.test(path) &&
      !path.includes('/testing/'),
    standsForVisibility,
  ),
  broken: [
    'function readNode(db: Queryable, id: string, tenant: string | null) {}',
    'const readNode = (db: Queryable, id: string, tenant?: string) => {};',
    "const readNode = (db: Queryable, tenant = 'acme') => {};",
    'interface NodeFilter { tenant: string | null }',
    'interface NodeFilter { tenant?: string }',
    'type Person = { tenant: string | undefined };',
    'readNode(db, id, person().tenant);',
    'readNode(db, id, call.person().tenant);',
    'if (caller.tenant !== null) throw refused;',
    "if (visibility.kind === 'tenant') where.push(own);",
    "const all = person().visibility.kind !== 'tenant';",
  ].map((text) => [file('src/store/rows/a.ts', text)]),
  fine: [
    file('src/store/rows/tokens.ts', 'export interface TokenRow { tenant: string | null }'),
    file(
      'src/store/rows/a.ts',
      'interface AllocationRow { tenant: string }\nconst f = (tenant: string) => row.tenant;',
    ),
    file('src/cli/a.ts', 'interface Options { tenant?: string }'),
  ],
};

export const visibilityRules: Rule[] = [onePredicateFile, callersVisibility, noNullableTenant];
