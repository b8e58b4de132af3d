/**
 * Runs the EC2 actions that the driver uses on an account in memory, and answers in EC2's format.
 */
import type { FakeAccount, FakeAttachment, FakeInstance } from './account.ts';
import { Ec2Refusal, type Query, responseXml } from './query.ts';

const codes = { pending: 0, running: 16, 'shutting-down': 32, terminated: 48, stopping: 64, stopped: 80 };
const stateOf = (state: FakeInstance['state']) => ({ code: codes[state], name: state });
const tagSet = (tags: Record<string, string>) => Object.entries(tags).map(([key, value]) => ({ key, value }));

const toXmlInstance = (instance: FakeInstance) => ({
  instanceId: instance.id,
  imageId: instance.fields.get('ImageId') ?? '',
  instanceState: stateOf(instance.state),
  privateIpAddress: '10.0.0.7',
  clientToken: instance.token,
  tagSet: tagSet(instance.tags),
  ...(instance.spot && { instanceLifecycle: 'spot' }),
  ...(instance.reason && {
    stateReason: { code: instance.reason.split(':')[0] ?? '', message: instance.reason },
  }),
});

const attachmentStatus = ({ instance }: FakeAttachment) => (instance === null ? 'available' : 'in-use');

type Action = (account: FakeAccount, query: Query) => string;

const changeStates =
  (what: string, to: (instance: FakeInstance) => FakeInstance['state']): Action =>
  (account, { fields }) => {
    const changes = account.findNamed(fields).map((instance) => {
      const stateBefore = instance.state;
      instance.state = to(instance);
      return { instanceId: instance.id, currentState: stateOf(instance.state), previousState: stateOf(stateBefore) };
    });
    return responseXml(what, { instancesSet: changes });
  };

const hasEnded = ({ state }: FakeInstance) => state === 'terminated' || state === 'shutting-down';

function stopState(instance: FakeInstance): FakeInstance['state'] {
  if (instance.spot) throw new Ec2Refusal('UnsupportedOperation', `You can't stop the Spot Instance '${instance.id}'`);
  if (hasEnded(instance) || instance.state === 'pending')
    throw new Ec2Refusal(
      'IncorrectInstanceState',
      `The instance '${instance.id}' is not in a state from which it can be stopped.`,
    );
  return instance.state === 'stopped' ? 'stopped' : 'stopping';
}

const deleteAttachment =
  (what: string, field: string): Action =>
  (account, { fields }) => {
    const id = fields.get(field) ?? '';
    const attachment = account.attachments.get(id);
    if (!attachment) throw new Ec2Refusal(`Invalid${field}.NotFound`, `'${id}' does not exist`);
    if (attachment.instance !== null) throw new Ec2Refusal('VolumeInUse', `${id} is in use`);
    account.attachments.delete(id);
    return responseXml(what, { return: true });
  };

export const actions: Record<string, Action> = {
  RunInstances: (account, query) =>
    responseXml('RunInstances', { reservationId: 'r-1', instancesSet: [toXmlInstance(account.run(query))] }),
  DescribeInstances(account, query) {
    const instances = account.readInstances(query);
    const size = Number(query.fields.get('MaxResults') ?? 1000);
    const from = Number(query.fields.get('NextToken') ?? 0);
    const page = instances.slice(from, from + size);
    return responseXml('DescribeInstances', {
      reservationSet: page.map((each) => ({ reservationId: `r-${each.id}`, instancesSet: [toXmlInstance(each)] })),
      ...(instances.length > from + size && { nextToken: String(from + size) }),
    });
  },
  StartInstances: changeStates('StartInstances', () => 'pending'),
  StopInstances: changeStates('StopInstances', stopState),
  TerminateInstances: changeStates('TerminateInstances', (instance) =>
    instance.state === 'terminated' ? 'terminated' : 'shutting-down',
  ),
  DescribeVolumes: (account, { fields }) =>
    responseXml('DescribeVolumes', {
      volumeSet: account.listAttachments('volume', fields).map((attachment) => ({
        volumeId: attachment.id,
        status: attachmentStatus(attachment),
        tagSet: tagSet(attachment.tags),
      })),
    }),
  DescribeNetworkInterfaces: (account, { fields }) =>
    responseXml('DescribeNetworkInterfaces', {
      networkInterfaceSet: account.listAttachments('network-interface', fields).map((attachment) => ({
        networkInterfaceId: attachment.id,
        status: attachmentStatus(attachment),
        tagSet: tagSet(attachment.tags),
      })),
    }),
  DeleteVolume: deleteAttachment('DeleteVolume', 'VolumeId'),
  DeleteNetworkInterface: deleteAttachment('DeleteNetworkInterface', 'NetworkInterfaceId'),
  DescribeImages: (account, { fields }) =>
    responseXml('DescribeImages', {
      imagesSet: account.hasImage(fields.get('ImageId.1') ?? '')
        ? [{ imageId: fields.get('ImageId.1') ?? '', rootDeviceName: '/dev/xvda' }]
        : [],
    }),
  DescribeInstanceStatus: (account, { fields }) =>
    responseXml('DescribeInstanceStatus', {
      instanceStatusSet: account.findNamed(fields).map((each) => ({
        instanceId: each.id,
        instanceState: stateOf(each.state),
        systemStatus: { status: 'ok' },
        instanceStatus: { status: 'initializing' },
      })),
    }),
  GetConsoleOutput: (account, { fields }) =>
    responseXml('GetConsoleOutput', {
      instanceId: fields.get('InstanceId') ?? '',
      output: Buffer.from(account.consoleText(fields.get('InstanceId') ?? '')).toString('base64'),
    }),
};
