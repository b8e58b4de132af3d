/**
 * The driver's interface to EC2 in one region. Only this file uses the SDK, which is loaded at
 * first use.
 */
import type { EC2Client, Filter, Instance, RunInstancesCommandInput, Tag } from '@aws-sdk/client-ec2';
import type { Clock } from '../../base/clock.ts';
import { codeOf, isMissing } from './cloud-error.ts';
import type { AccountSecrets } from './secrets.ts';
import type { Tags } from './tags.ts';

export interface InstanceRow {
  id: string;
  tags: Tags;
  /**
   * The provider's name of the state: pending, running, stopping, stopped, shutting-down,
   * terminated.
   */
  state: string;
  /** The reason for the state, if the provider gives one: `Client.VolumeLimitExceeded: …`. */
  reason: string | null;
  spot: boolean;
  private_ip: string | null;
}

/** A tagged resource that can outlive its machine. */
export interface PartRow {
  id: string;
  kind: 'volume' | 'network-interface';
  tags: Tags;
  /** The provider's name of the state; `available` means that the resource is not attached. */
  state: string;
}

export interface Checks {
  system: string;
  instance: string;
  events: string[];
}

export interface Cloud {
  readonly region: string;
  instances(tags: Tags): Promise<InstanceRow[]>;
  /** Returns null if there is no machine with that id. */
  instance(id: string): Promise<InstanceRow | null>;
  run(request: RunInstancesCommandInput): Promise<InstanceRow>;
  start(id: string): Promise<void>;
  stop(ids: string[], force: boolean): Promise<void>;
  /** Does nothing if the machines no longer exist. */
  terminate(ids: string[]): Promise<void>;
  parts(tags: Tags): Promise<PartRow[]>;
  remove(part: PartRow): Promise<void>;
  rootDevice(image_id: string): Promise<string | null>;
  checks(id: string): Promise<Checks | null>;
  consoleText(id: string): Promise<string>;
  secrets(): Promise<AccountSecrets>;
}

/**
 * The time limit of a request. It is longer than a driver call may take: the request continues
 * after the call has returned, and the next call joins it.
 */
const request_timeout_seconds = 20;
const page_size = 1000;

const filtersOf = (tags: Tags): Filter[] =>
  Object.entries(tags).map(([name, value]) => ({ Name: `tag:${name}`, Values: [value] }));

const tagsIn = (tags: Tag[] | undefined): Tags =>
  Object.fromEntries((tags ?? []).map(({ Key = '', Value = '' }) => [Key, Value]));

const reasonOf = ({ StateReason, StateTransitionReason }: Instance): string | null => {
  const { Code = '', Message = '' } = StateReason ?? {};
  const stateReason = Message.startsWith(Code) ? Message : `${Code}: ${Message}`;
  return [Code || Message ? stateReason : '', StateTransitionReason ?? ''].filter(Boolean).join(', ') || null;
};

const rowOf = (instance: Instance): InstanceRow => ({
  id: instance.InstanceId ?? '',
  tags: tagsIn(instance.Tags),
  state: instance.State?.Name ?? 'unknown',
  reason: reasonOf(instance),
  spot: instance.InstanceLifecycle === 'spot',
  private_ip: instance.PrivateIpAddress ?? null,
});

async function fetchPages<Page extends { NextToken?: string | undefined }>(
  fetchPage: (NextToken: string | undefined) => Promise<Page>,
): Promise<Page[]> {
  const pages: Page[] = [];
  for (let token: string | undefined, first = true; first || token; first = false) {
    const page = await fetchPage(token);
    pages.push(page);
    token = page.NextToken || undefined;
  }
  return pages;
}

/** A missing resource counts as removed. */
const ignoreMissing = async (answer: Promise<unknown>): Promise<void> => {
  await answer.catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
};

export interface CloudOptions {
  region: string;
  /** Null means the provider's own URL in that region. */
  endpoint: string | null;
  clock: Clock;
}

export async function openCloud({ region, endpoint, clock }: CloudOptions): Promise<Cloud> {
  const sdk = await import('@aws-sdk/client-ec2');
  const client: EC2Client = new sdk.EC2Client({
    region,
    ...(endpoint !== null && { endpoint }),
    // The client does not retry: the operation retries, where the user can see the reason.
    maxAttempts: 1,
    requestHandler: { connectionTimeout: 3_000, requestTimeout: request_timeout_seconds * 1000 },
  });

  /** Aborts the request after the timeout, so that a dead connection is closed. */
  const withTimeout = async <T>(send: (abortSignal: AbortSignal) => Promise<T>): Promise<T> => {
    const timeout = new AbortController();
    const cancel = clock.after(request_timeout_seconds * 1000, () => timeout.abort());
    try {
      return await send(timeout.signal);
    } finally {
      cancel();
    }
  };
  const listInstances = async (query: { Filters?: Filter[]; InstanceIds?: string[] }): Promise<InstanceRow[]> => {
    const pages = await fetchPages((NextToken) =>
      withTimeout((abortSignal) =>
        client.send(
          new sdk.DescribeInstancesCommand({
            ...query,
            ...(query.Filters && { MaxResults: page_size }),
            ...(NextToken && { NextToken }),
          }),
          { abortSignal },
        ),
      ),
    );
    return pages.flatMap(({ Reservations = [] }) => Reservations.flatMap(({ Instances = [] }) => Instances.map(rowOf)));
  };

  const listVolumes = async (Filters: Filter[]): Promise<PartRow[]> => {
    const pages = await fetchPages((NextToken) =>
      withTimeout((abortSignal) =>
        client.send(new sdk.DescribeVolumesCommand({ Filters, ...(NextToken && { NextToken }) }), { abortSignal }),
      ),
    );
    return pages.flatMap(({ Volumes = [] }) =>
      Volumes.map(({ VolumeId = '', State = 'unknown', Tags }) => ({
        id: VolumeId,
        kind: 'volume' as const,
        tags: tagsIn(Tags),
        state: State,
      })),
    );
  };
  const listNetworkInterfaces = async (Filters: Filter[]): Promise<PartRow[]> => {
    const pages = await fetchPages((NextToken) =>
      withTimeout((abortSignal) =>
        client.send(new sdk.DescribeNetworkInterfacesCommand({ Filters, ...(NextToken && { NextToken }) }), {
          abortSignal,
        }),
      ),
    );
    return pages.flatMap(({ NetworkInterfaces = [] }) =>
      NetworkInterfaces.map(({ NetworkInterfaceId = '', Status = 'unknown', TagSet }) => ({
        id: NetworkInterfaceId,
        kind: 'network-interface' as const,
        tags: tagsIn(TagSet),
        state: Status,
      })),
    );
  };

  const readConsole = (InstanceId: string, Latest: boolean) =>
    withTimeout((abortSignal) =>
      client.send(new sdk.GetConsoleOutputCommand({ InstanceId, ...(Latest && { Latest }) }), { abortSignal }),
    );

  return {
    region,
    instances: (tags) => listInstances({ Filters: filtersOf(tags) }),
    async instance(id) {
      try {
        return (await listInstances({ InstanceIds: [id] }))[0] ?? null;
      } catch (error) {
        if (isMissing(error)) return null;
        throw error;
      }
    },
    async run(request) {
      const { Instances = [] } = await withTimeout((abortSignal) =>
        client.send(new sdk.RunInstancesCommand(request), { abortSignal }),
      );
      const [launched] = Instances;
      if (!launched) throw new Error('RunInstances answered without a machine');
      return rowOf(launched);
    },
    async start(id) {
      await withTimeout((abortSignal) =>
        client.send(new sdk.StartInstancesCommand({ InstanceIds: [id] }), { abortSignal }),
      );
    },
    stop: (ids, Force) =>
      ignoreMissing(
        withTimeout((abortSignal) =>
          client.send(new sdk.StopInstancesCommand({ InstanceIds: ids, ...(Force && { Force }) }), { abortSignal }),
        ),
      ),
    terminate: (ids) =>
      ignoreMissing(
        withTimeout((abortSignal) =>
          client.send(new sdk.TerminateInstancesCommand({ InstanceIds: ids }), { abortSignal }),
        ),
      ),
    async parts(tags) {
      const filters = filtersOf(tags);
      const parts = await Promise.all([listVolumes(filters), listNetworkInterfaces(filters)]);
      return parts.flat().filter(({ state }) => !['deleting', 'deleted'].includes(state));
    },
    remove: ({ kind, id }) =>
      ignoreMissing(
        withTimeout<unknown>((abortSignal) =>
          kind === 'volume'
            ? client.send(new sdk.DeleteVolumeCommand({ VolumeId: id }), { abortSignal })
            : client.send(new sdk.DeleteNetworkInterfaceCommand({ NetworkInterfaceId: id }), { abortSignal }),
        ),
      ),
    async rootDevice(image_id) {
      const { Images = [] } = await withTimeout((abortSignal) =>
        client.send(new sdk.DescribeImagesCommand({ ImageIds: [image_id] }), { abortSignal }),
      );
      return Images[0]?.RootDeviceName ?? null;
    },
    async checks(id) {
      const { InstanceStatuses = [] } = await withTimeout((abortSignal) =>
        client.send(new sdk.DescribeInstanceStatusCommand({ InstanceIds: [id], IncludeAllInstances: true }), {
          abortSignal,
        }),
      );
      const [status] = InstanceStatuses;
      if (!status) return null;
      return {
        system: status.SystemStatus?.Status ?? 'unknown',
        instance: status.InstanceStatus?.Status ?? 'unknown',
        events: (status.Events ?? []).map(({ Code = '', Description = '' }) => `${Code}: ${Description}`),
      };
    },
    async consoleText(id) {
      // Only newer instance types return the current console. Others refuse `Latest` and return the
      // last stored output.
      const { Output } = await readConsole(id, true).catch((error: unknown) => {
        if (!/^(Unsupported|InvalidParameter)/.test(codeOf(error))) throw error;
        return readConsole(id, false);
      });
      return Buffer.from(Output ?? '', 'base64').toString('utf8');
    },
    secrets: () => client.config.credentials(),
  };
}
