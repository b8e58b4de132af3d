/**
 * Pool fields that grant more than an operator has: an IAM role, a shell on machines, access to a
 * network. Only admins may change them; operators may set values listed under `operators_may` in
 * the settings file.
 */
import { canonicalJson } from '../canonical-json.ts';
import type { PoolDocument } from '../pool.ts';

interface PrivilegedField {
  /** Null if the field exists for every driver. */
  driver: string | null;
  path: readonly string[];
  /** For lists of objects: the field that is compared with the allowed values. */
  item?: string;
  /** Objects without the field `item` are allowed, because its default grants nothing. */
  is_item_optional?: true;
  /** The list under `operators_may` that allows values; null if only an admin may set the field. */
  allowed_by: OperatorList | null;
  reason: string;
}

export const operatorLists = [
  'requires',
  'private_probes',
  'scripts',
  'iam_instance_profiles',
  'image_ids',
  'subnet_ids',
  'security_group_ids',
  'key_names',
  'metadata_tokens',
  'tags',
  'subscription_ids',
  'resource_groups',
  'role_definition_ids',
  'role_principal_ids',
  'role_scopes',
] as const;
export type OperatorList = (typeof operatorLists)[number];

/** Values that operators may set; `*` in a list allows every value. */
export type OperatorsMay = Partial<Record<OperatorList, readonly string[]>>;

const ec2Field = (field: string, allowed_by: OperatorList, reason: string): PrivilegedField => ({
  driver: 'ec2',
  path: ['spec', field],
  allowed_by,
  reason,
});
const runsOnMachineReason = "it runs on machines that have the pool's IAM role";
const runsOnThisHostReason = "it runs on the control plane's own host";

export const privilegedFields: readonly PrivilegedField[] = [
  {
    driver: null,
    path: ['requires'],
    item: 'check',
    allowed_by: 'requires',
    reason: 'checks are shell commands that the agent runs on each machine',
  },
  {
    driver: null,
    path: ['probe', 'allow_private'],
    allowed_by: 'private_probes',
    reason: 'it lets the server send requests into private networks',
  },
  {
    driver: null,
    path: ['compat', 'allow_takeover'],
    allowed_by: null,
    reason: 'it lets a join token alone take the name of a machine that serves a tenant',
  },
  {
    driver: null,
    path: ['compat', 'keep_name'],
    allowed_by: null,
    reason: 'it lets a join token alone take the name of a live process',
  },
  { driver: 'local', path: ['spec'], allowed_by: null, reason: runsOnThisHostReason },
  { driver: 'docker', path: ['spec'], allowed_by: null, reason: runsOnThisHostReason },
  ec2Field('iam_instance_profile', 'iam_instance_profiles', 'it gives the machines an IAM role'),
  ec2Field('image_id', 'image_ids', 'the image decides what runs on the machines'),
  ec2Field('subnet_id', 'subnet_ids', 'it decides which network the machines are in'),
  ec2Field(
    'security_group_ids',
    'security_group_ids',
    'they decide who can reach the machines, and what the machines can reach',
  ),
  ec2Field('key_name', 'key_names', 'the owner of the key may sign in to the machines'),
  ec2Field(
    'metadata_tokens',
    'metadata_tokens',
    "it decides how easily the credentials of the machines' IAM role can be stolen",
  ),
  ec2Field('tags', 'tags', 'access policies of the account may depend on tags'),
  ...['prepare', 'setup', 'command', 'clean', 'env'].map((field) => ec2Field(field, 'scripts', runsOnMachineReason)),
  {
    driver: 'aks',
    path: ['spec', 'subscription_id'],
    allowed_by: 'subscription_ids',
    reason: "it decides where the server's account creates clusters",
  },
  {
    driver: 'aks',
    path: ['spec', 'resource_group'],
    allowed_by: 'resource_groups',
    reason: 'it can put clusters into a resource group of others',
  },
  {
    driver: 'aks',
    path: ['spec', 'roles'],
    item: 'role_definition_id',
    allowed_by: 'role_definition_ids',
    reason: "they are assigned with the server's own rights",
  },
  {
    driver: 'aks',
    path: ['spec', 'roles'],
    item: 'principal_id',
    allowed_by: 'role_principal_ids',
    reason: 'it decides who gets the role',
  },
  {
    driver: 'aks',
    path: ['spec', 'roles'],
    item: 'scope',
    is_item_optional: true,
    allowed_by: 'role_scopes',
    reason: 'it can extend the role beyond the cluster',
  },
];

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

const valueAt = (document: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((value, name) => (isRecord(value) ? value[name] : undefined), document);

const asText = (value: unknown): string => (typeof value === 'string' ? value : canonicalJson(value));

/** The individual values of a field, comparable with the allowed values. */
function valuesOf(value: unknown, item?: string): string[] {
  if (!Array.isArray(value)) return [asText(value)];
  return value.map((each) => asText(item !== undefined && isRecord(each) ? each[item] : each));
}

const selectItems = (value: unknown, item: string | undefined): unknown =>
  Array.isArray(value) && item !== undefined
    ? value.filter((each) => isRecord(each) && each[item] !== undefined)
    : value;

function isAllowed(field: PrivilegedField, whole: unknown, may: OperatorsMay): boolean {
  const { allowed_by, item, is_item_optional } = field;
  const list = allowed_by === null ? [] : (may[allowed_by] ?? []);
  if (list.includes('*')) return true;
  const value = is_item_optional ? selectItems(whole, item) : whole;
  if (is_item_optional && (value === undefined || (Array.isArray(value) && value.length === 0))) return true;
  const values = value === undefined ? [] : valuesOf(value, item);
  // An empty list must not pass as allowed, because it would remove values that an admin set.
  return values.length > 0 && values.every((each) => list.includes(each));
}

/** Whether a value grants nothing because it is absent, empty or off, as in a new pool. */
const grantsNothing = (value: unknown): boolean =>
  value === undefined || value === false || (isRecord(value) && Object.keys(value).length === 0);

const isSameValue = (a: unknown, b: unknown): boolean =>
  (grantsNothing(a) && grantsNothing(b)) ||
  (a !== undefined && b !== undefined && canonicalJson(a) === canonicalJson(b));

export interface RefusedField {
  field: string;
  path: string;
  reason: string;
  allowed_by: OperatorList | null;
}

/**
 * Returns the privileged fields whose new value an operator may not set. Unchanged fields are not
 * included.
 */
export function refusedFields(
  before: PoolDocument | undefined,
  after: PoolDocument,
  may: OperatorsMay,
): RefusedField[] {
  return privilegedFields
    .filter(({ driver }) => driver === null || driver === after.driver)
    .filter((field) => {
      const value = valueAt(after, field.path);
      return !isSameValue(valueAt(before, field.path), value) && !isAllowed(field, value, may);
    })
    .map(({ path, reason, allowed_by }) => ({
      field: path.join('.'),
      path: `/body/${path.join('/')}`,
      reason,
      allowed_by,
    }));
}
