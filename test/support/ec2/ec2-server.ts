/** A server that speaks EC2's query protocol and can be told to fail in the ways EC2 does. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Boots, createAccount, type FakeAccount } from './account.ts';
import { actions } from './actions.ts';
import { Ec2Refusal, type Query, readQuery, responseXml } from './query.ts';

/**
 * How the next requests of an action fail: refused, disconnected before or after they take effect,
 * never answered, or, for a list, answered as if it were empty.
 */
export type Fault =
  | { refuse: string; message?: string; status?: number }
  | { cut: 'before' | 'after' }
  | { body: string; status: number }
  | 'hang'
  | 'unlisted';

export interface Ec2Server {
  endpoint: string;
  account: FakeAccount;
  /** Every requested action, in order. */
  queries: Query[];
  /** Applies to the given number of requests of that action, or to all of them. */
  plant(action: string, fault: Fault, times?: number): void;
  heal(): void;
  /** Limits the page size of lists, whatever the request says. */
  pageSize(max: number): void;
  close(): Promise<void>;
}

export const someImage = 'ami-0123456789abcdef0';

export async function startEc2(boots: Boots = {}): Promise<Ec2Server> {
  const account = createAccount([someImage], boots);
  const queries: Query[] = [];
  let page: number | null = null;
  const planted = new Map<string, { fault: Fault; left: number }>();

  const faultFor = (action: string): Fault | null => {
    const found = planted.get(action) ?? planted.get('*');
    if (!found || found.left <= 0) return null;
    found.left--;
    return found.fault;
  };
  const answer = (query: Query): string => {
    const action = actions[query.action];
    if (!action) throw new Ec2Refusal('InvalidAction', `The action ${query.action} is not valid for this web service.`);
    return action(account, query);
  };
  const send = (reply: ServerResponse, status: number, body: string) =>
    reply.writeHead(status, { 'content-type': 'text/xml;charset=UTF-8' }).end(body);

  const server = createServer(async (request, reply) => {
    const query = await readQuery(request);
    queries.push(query);
    if (page !== null && query.fields.has('MaxResults')) query.fields.set('MaxResults', String(page));
    const fault = faultFor(query.action);
    try {
      if (fault === 'hang') return;
      if (fault === 'unlisted') {
        if (query.fields.has('InstanceId.1')) throw new Ec2Refusal('InvalidInstanceID.NotFound', 'does not exist');
        return send(reply, 200, responseXml(query.action, { reservationSet: [] }));
      }
      if (fault && 'refuse' in fault)
        throw new Ec2Refusal(fault.refuse, fault.message ?? `planted ${fault.refuse}`, fault.status);
      if (fault && 'body' in fault) return send(reply, fault.status, fault.body);
      if (fault?.cut === 'before') return request.socket.destroy();
      const body = answer(query);
      if (fault?.cut === 'after') return request.socket.destroy();
      return send(reply, 200, body);
    } catch (error) {
      if (!(error instanceof Ec2Refusal)) throw error;
      return send(reply, error.status, error.xml());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    account,
    queries,
    plant: (action, fault, times = Number.POSITIVE_INFINITY) => planted.set(action, { fault, left: times }),
    heal: () => planted.clear(),
    pageSize: (max) => {
      page = max;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
