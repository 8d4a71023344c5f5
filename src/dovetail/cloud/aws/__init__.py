"""What Karpenter's provider asks of AWS, derived as pure values.

The port: `api` (calls), `shapes` (answers), `errors` (refusals); `live` and `memory` are its twins.

`images` turns AMI selector terms into SSM parameters and DescribeImages queries; `userdata` writes what a
machine is told when it starts; `validation` says what of a class no node could use.

A launch: `choice` narrows the types, `reservations` adds reserved offerings, `launch` is what the requests
have in common, `templates` and `interfaces` make the launch templates, `fleet` the CreateFleet request, and
`fleet_errors` reads its errors.
"""
