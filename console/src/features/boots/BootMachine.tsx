/** Links to the boot of a machine. */
import { Link } from '@tanstack/react-router';
import type { BootSample } from '../../../../src/contract/supervision/boots.ts';
import { shortId } from '../../ui/layout/CopyId.tsx';

export const BootMachine = ({ node_id, node_instance_id }: Pick<BootSample, 'node_id' | 'node_instance_id'>) => (
  <Link
    to="/nodes/$id"
    params={{ id: node_id }}
    search={{ tab: 'boot', instance: node_instance_id }}
    title={node_instance_id}
  >
    <code>{shortId(node_id)}</code>
  </Link>
);
