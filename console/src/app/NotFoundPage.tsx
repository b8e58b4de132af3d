/** The page for an unknown URL. */
import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { IconMapOff } from '../ui/icons.generated.ts';
import { Empty } from '../ui/layout/Empty.tsx';
import { PageHeader } from '../ui/layout/PageHeader.tsx';
import { Panel } from '../ui/layout/Panel.tsx';

export const NotFoundPage = () => (
  <>
    <PageHeader title="Not found" tab="Not found" />
    <Panel>
      <Empty icon={IconMapOff} title="There is no page at this URL">
        <p>The link may be old or mistyped.</p>
        <Button component={Link} to="/fleet" variant="default">
          Show the fleet
        </Button>
      </Empty>
    </Panel>
  </>
);
