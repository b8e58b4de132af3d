/**
 * An EC2 account in memory: instances with their volumes and interfaces, client tokens, and states
 * that advance each time they are read.
 */
import { createHash, randomBytes } from 'node:crypto';
import { Ec2Refusal, listOf, type Query, tagFilters, tagsFor } from './query.ts';

export interface FakeInstance {
  id: string;
  region: string;
  state: 'pending' | 'running' | 'stopping' | 'stopped' | 'shutting-down' | 'terminated';
  reason: string | null;
  tags: Record<string, string>;
  token: string;
  /**
   * The digest of the request without its token. EC2 refuses a token reused for another request.
   */
  request_digest: string;
  fields: URLSearchParams;
  spot: boolean;
  /** Text that the instance wrote to its serial console. */
  console: string;
}

/** A volume or network interface. */
export interface FakeAttachment {
  id: string;
  kind: 'volume' | 'network-interface';
  /** Null once it is detached. */
  instance: string | null;
  tags: Record<string, string>;
}

const newId = (prefix: string) => `${prefix}-0${randomBytes(8).toString('hex')}`;

const digestOf = (fields: URLSearchParams) => {
  const comparedFields = [...fields].filter(([name]) => name !== 'ClientToken');
  return createHash('sha256').update(JSON.stringify(comparedFields)).digest('hex');
};

/** The state that follows each state, entered after the current one was read. */
const nextState: Partial<Record<FakeInstance['state'], FakeInstance['state']>> = {
  pending: 'running',
  stopping: 'stopped',
  'shutting-down': 'terminated',
};

/** Hooks for tests that run the user-data of their instances. */
export interface Boots {
  launched?(instance: FakeInstance): void;
  ended?(instance: FakeInstance): void;
}

export function createAccount(images: string[], boots: Boots = {}) {
  const instances = new Map<string, FakeInstance>();
  const attachments = new Map<string, FakeAttachment>();
  let console_text: string | null = null;
  /** The state reason that the next launched instance gets at once. */
  let nextFailure: string | null = null;

  const hasAllTags = (tags: Record<string, string>, fields: URLSearchParams) =>
    tagFilters(fields).every(([name, values]) => values.includes(tags[name] ?? ''));

  const findNamed = (fields: URLSearchParams): FakeInstance[] =>
    listOf(fields, 'InstanceId').map((id) => {
      const instance = instances.get(id);
      if (!instance) throw new Ec2Refusal('InvalidInstanceID.NotFound', `The instance ID '${id}' does not exist`);
      return instance;
    });

  const dispose = (instance: FakeInstance) => {
    for (const attachment of [...attachments.values()])
      if (attachment.instance === instance.id) attachments.delete(attachment.id);
  };
  const advance = (instance: FakeInstance) => {
    const newState = nextState[instance.state];
    if (!newState) return;
    instance.state = newState;
    if (newState === 'terminated') dispose(instance);
    if (newState === 'terminated' || newState === 'stopped') boots.ended?.(instance);
  };

  const run = ({ fields, region }: Query): FakeInstance => {
    const image = fields.get('ImageId') ?? '';
    if (!images.includes(image))
      throw new Ec2Refusal('InvalidAMIID.NotFound', `The image id '[${image}]' does not exist`);
    const token = fields.get('ClientToken') ?? '';
    const request_digest = digestOf(fields);
    const existing = token && [...instances.values()].find((each) => each.token === token);
    if (existing) {
      if (existing.request_digest === request_digest) return existing;
      throw new Ec2Refusal(
        'IdempotentParameterMismatch',
        'Arguments on this idempotent request are inconsistent with arguments used in previous request(s).',
      );
    }
    const instance: FakeInstance = {
      id: newId('i'),
      region,
      state: nextFailure ? 'terminated' : 'pending',
      reason: nextFailure,
      tags: tagsFor(fields, 'instance'),
      token,
      request_digest,
      fields,
      spot: fields.get('InstanceMarketOptions.MarketType') === 'spot',
      console: '',
    };
    nextFailure = null;
    instances.set(instance.id, instance);
    for (const kind of instance.state === 'terminated' ? [] : (['volume', 'network-interface'] as const)) {
      const id = newId(kind === 'volume' ? 'vol' : 'eni');
      attachments.set(id, { id, kind, instance: instance.id, tags: tagsFor(fields, kind) });
    }
    boots.launched?.(instance);
    return instance;
  };

  return {
    instances,
    attachments,
    showConsole: (text: string) => {
      console_text = text;
    },
    consoleText: (id: string) => console_text ?? instances.get(id)?.console ?? '',
    doom: (reason: string) => {
      nextFailure = reason;
    },
    hasImage: (id: string) => images.includes(id),
    run,
    findNamed,
    dispose,
    /**
     * Returns the instances in the query's region that match its ids or tags. Each advances by one
     * state after it was returned.
     */
    readInstances(query: Query): FakeInstance[] {
      const candidates =
        listOf(query.fields, 'InstanceId').length > 0 ? findNamed(query.fields) : [...instances.values()];
      const matches = candidates.filter((each) => each.region === query.region && hasAllTags(each.tags, query.fields));
      const copies = matches.map((each) => ({ ...each }));
      matches.forEach(advance);
      return copies;
    },
    listAttachments: (kind: FakeAttachment['kind'], fields: URLSearchParams): FakeAttachment[] =>
      [...attachments.values()].filter((each) => each.kind === kind && hasAllTags(each.tags, fields)),
  };
}

export type FakeAccount = ReturnType<typeof createAccount>;
