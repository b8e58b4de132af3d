/** The status badges of nodes, allocations and operations. */
import {
  type AllocationStatus,
  allocationStatuses,
  type NodeStatus,
  nodeStatuses,
  type OperationStatus,
} from '../../../../src/lifecycle/model/states.ts';
import { type MachineTrouble, troubleWords } from './machine-trouble.ts';
import { StatusBadge } from './StatusBadge.tsx';
import { allocationLooks, lookOf, nodeLooks, operationLooks } from './status-looks.ts';

interface Props<Status> {
  status: Status;
  large?: boolean;
}

export const NodeStatusBadge = ({ status, large }: Props<NodeStatus>) => (
  <StatusBadge look={lookOf(nodeLooks, status)} status={status} means={nodeStatuses[status]?.means} large={large} />
);

interface AllocationProps extends Props<AllocationStatus> {
  /** Shown instead of the status while the machine does not serve the allocation. */
  trouble?: MachineTrouble | null;
}

export const AllocationStatusBadge = ({ status, large, trouble }: AllocationProps) =>
  trouble ? (
    <StatusBadge
      look={lookOf(nodeLooks, trouble.status)}
      status={`${status}, ${troubleWords[trouble.status].label}`}
      means={troubleWords[trouble.status].sentence}
      large={large}
    />
  ) : (
    <StatusBadge
      look={lookOf(allocationLooks, status)}
      status={status}
      means={allocationStatuses[status]?.means}
      large={large}
    />
  );

export const OperationStatusBadge = ({ status, large }: Props<OperationStatus>) => (
  <StatusBadge look={lookOf(operationLooks, status)} status={status} large={large} />
);
