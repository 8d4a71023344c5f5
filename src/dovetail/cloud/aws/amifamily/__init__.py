"""What a machine starts with, by AMI family.

images      AMI selector terms as SSM parameters and DescribeImages queries, and their answers (pure)
discovery   the images of a class, asked of SSM and EC2
kubelet     the fields of KubeletConfiguration
userdata    the text that a new machine runs first
"""
