"""What Karpenter's provider asks of AWS, derived as pure values.

`images` turns AMI selector terms into SSM parameters and DescribeImages queries; `userdata` writes what a
machine is told when it starts.
"""
